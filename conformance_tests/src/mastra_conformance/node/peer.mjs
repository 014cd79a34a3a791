// A process of the TypeScript system beside ours: obeys one JSON line at a time.
//
// In: {"id": 1, "do": "store", "domain": "memory", "method": "listThreads", "args": [{…}]}
// Out: {"id": 1, "value": …} or {"id": 1, "error": {"name", "message", "id"}}
// Dates travel as {"$date": "…Z"}. MASTRA_NODE_PACKAGES names the folder that holds node_modules.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

import { checkMessages, readPage } from './pages.mjs';
import { RedisBus } from './redis_bus.mjs';
import { Gates, scriptedModel } from './scripted_model.mjs';
import { Threads } from './threads.mjs';

const require = createRequire(`${process.env.MASTRA_NODE_PACKAGES}/`);
const held = {
  store: null,
  mastra: null,
  agents: {},
  buses: {},
  clients: [],
  calls: [],
  gates: new Gates(),
  requests: [],
};
const threads = new Threads(held.agents);

// -- values on the wire -------------------------------------------------------------------------

function fromWire(value) {
  if (Array.isArray(value)) return value.map(fromWire);
  if (value === null || typeof value !== 'object') return value;
  if (typeof value.$date === 'string') return new Date(value.$date);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, fromWire(part)]));
}

function toWire(value) {
  if (value instanceof Date) return { $date: value.toISOString() };
  if (Array.isArray(value)) return value.map(toWire);
  if (value === null || typeof value !== 'object') return value;
  if (typeof value.toJSON === 'function') return toWire(value.toJSON());
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, part]) => typeof part !== 'function' && part !== undefined)
      .map(([key, part]) => [key, toWire(part)]),
  );
}

// -- store --------------------------------------------------------------------------------------

const STORES = {
  libsql: ({ url }) => new (require('@mastra/libsql').LibSQLStore)({ id: 'peer', url }),
  pg: ({ url }) => new (require('@mastra/pg').PostgresStore)({ id: 'peer', connectionString: url }),
  mongodb: ({ url, dbName }) => {
    const { MongoDBStore } = require('@mastra/mongodb');
    return new MongoDBStore({ id: 'peer', url, dbName });
  },
  redis: ({ url }) => new (require('@mastra/redis').RedisStore)({ id: 'peer', connectionString: url }),
};

async function open({ store }) {
  held.store = STORES[store.kind](store);
  await held.store.init();
}

async function domain(name) {
  const found = await held.store.getStore(name);
  if (!found) throw new Error(`This store has no ${name}.`);
  return found;
}

async function callStore({ domain: name, method, args = [] }) {
  const found = await domain(name);
  return found[method](...args);
}

/** A value with `{n}` in its texts replaced by a number. */
function numbered(value, number) {
  if (typeof value === 'string') return value.replaceAll('{n}', String(number));
  if (Array.isArray(value)) return value.map((part) => numbered(part, number));
  if (value === null || typeof value !== 'object' || value instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, numbered(part, number)]),
  );
}

/**
 * Microseconds per call of the store: of one caller a tenth of its calls is quicker, of many
 * that is what each costs, all in all. `{n}` in the arguments is another number in every call, from `first` on.
 */
async function timeStore({ domain: name, method, args = [], calls, tasks = 1, first = 0, of = 0 }) {
  const found = await domain(name);
  const ready = Array.from({ length: calls }, (_, place) =>
    numbered(args, of ? (first + place) % of : first + place),
  );
  const durations = [];
  const began = performance.now();
  await Promise.all(
    Array.from({ length: tasks }, async () => {
      for (let given = ready.pop(); given !== undefined; given = ready.pop()) {
        const start = performance.now();
        await found[method](...given);
        durations.push(performance.now() - start);
      }
    }),
  );
  if (tasks > 1) return ((performance.now() - began) / calls) * 1000;
  return durations.sort((one, other) => one - other)[Math.floor(calls / 10)] * 1000;
}

// -- agents -------------------------------------------------------------------------------------

function makeTool({ id, requireApproval = false, suspend = null }) {
  const { createTool } = require('@mastra/core/tools');
  const { z } = require('zod');
  return createTool({
    id,
    description: id,
    inputSchema: z.object({ env: z.string().optional() }),
    ...(suspend ? { suspendSchema: z.any(), resumeSchema: z.any() } : {}),
    requireApproval,
    execute: async (input, context) => {
      const resumeData = context?.agent?.resumeData;
      if (suspend && resumeData === undefined) return context.agent.suspend(suspend);
      held.calls.push({ tool: id, input, ...(resumeData === undefined ? {} : { resumeData }) });
      return { done: id, ...(resumeData === undefined ? {} : { resumeData }) };
    },
  });
}

/** The same agent, whose loop is a workflow with steps and rows of its own. */
function durableAgent(agent) {
  const { createDurableAgent } = require('@mastra/core/agent/durable');
  return createDurableAgent({ agent });
}

async function startMastra({ agents, lease = null }) {
  const { Agent } = require('@mastra/core/agent');
  const { Mastra } = require('@mastra/core/mastra');
  const { Memory } = require('@mastra/memory');
  for (const { id, script, tools = [], subAgents = [], durable = false } of agents) {
    const agent = new Agent({
      id,
      name: id,
      instructions: 'You help.',
      model: scriptedModel(script, held),
      memory: new Memory({ storage: held.store, options: { lastMessages: 20 } }),
      tools: Object.fromEntries(tools.map((tool) => [tool.id, makeTool(tool)])),
      // They are described before whoever calls them.
      agents: Object.fromEntries(subAgents.map((name) => [name, held.agents[name]])),
    });
    held.agents[id] = durable ? durableAgent(agent) : agent;
  }
  held.mastra = new Mastra({
    agents: held.agents,
    storage: held.store,
    logger: false,
    ...(lease ? { pubsub: held.buses[lease] } : {}),
  });
}

/** Read a run to its end; what matters of it. */
async function drained(output) {
  const types = [];
  for await (const chunk of output.fullStream) types.push(chunk.type);
  return {
    runId: output.runId,
    types,
    text: await output.text,
    finishReason: await output.finishReason,
  };
}

async function callAgent({ agent, method, args = [] }) {
  const answer = await held.agents[agent][method](...args);
  if (!answer?.fullStream) return answer;
  // A durable agent hands its stream out with the means to leave it.
  const { output = answer, runId = output.runId, cleanup } = answer;
  const seen = await drained(output);
  cleanup?.();
  return { ...seen, runId };
}

async function dispatch({ now }) {
  const { dispatchDueNotifications } = require('@mastra/core/notifications');
  const storage = await domain('notifications');
  const answer = await dispatchDueNotifications({ mastra: held.mastra, storage, now });
  return {
    delivered: answer.delivered.map((record) => record.id),
    failed: answer.failed.map(({ record, error }) => ({ id: record.id, error })),
  };
}

// -- buses --------------------------------------------------------------------------------------

async function openBus({ bus, url, ...options }) {
  held.buses[bus] = new RedisBus(require('redis'), url, options);
  await held.buses[bus].open();
}

/** The runtime's own cache of numbered events around a bus, in the same Redis. */
async function openCachingBus({ bus, around, url }) {
  const { CachingPubSub } = require('@mastra/core/events');
  const { RedisServerCache, nodeRedisPreset } = require('@mastra/redis');
  const client = require('redis').createClient({ url });
  await client.connect();
  held.clients.push(client);
  const cache = new RedisServerCache({ client }, nodeRedisPreset);
  held.buses[bus] = new CachingPubSub(held.buses[around], cache);
}

const received = {};

async function subscribe({ bus, topic, group, as, answer = 'ack', startFrom = 'earliest' }) {
  received[as] = [];
  let number = 0;
  await held.buses[bus].subscribe(
    topic,
    async (event, ack, nack) => {
      number += 1;
      received[as].push(event);
      if (answer === 'ack') await ack?.();
      else if (answer === 'nack-every-third' && number % 3 === 0) await nack?.();
      else if (answer === 'nack-every-third') await ack?.();
    },
    { ...(group ? { group } : {}), startFrom },
  );
}

// -- the loop -----------------------------------------------------------------------------------

const DOES = {
  open,
  store: callStore,
  time: timeStore,
  mastra: startMastra,
  agent: callAgent,
  dispatch,
  calls: async () => held.calls,
  requests: async () => held.requests,
  'gate-reached': async ({ name }) => held.gates.reached(name),
  'gate-open': async ({ name }) => held.gates.open(name),
  send: (order) => threads.send(order),
  begin: (order) => threads.begin(order),
  follow: (order) => threads.follow(order),
  followed: (order) => threads.followed(order),
  bus: openBus,
  'caching-bus': openCachingBus,
  encode: async ({ text }) => encodeURIComponent(text),
  subscribe,
  received: async ({ as }) => received[as],
  'bus-call': async ({ bus, method, args = [] }) => held.buses[bus][method](...args),
  'read-page': async (order) => readPage(require, order),
  'check-messages': async (order) => checkMessages(require, order),
  version: async () => ({
    node: process.version,
    core: require('@mastra/core/package.json').version,
  }),
};

async function obey(line) {
  const { id, do: what, ...rest } = JSON.parse(line);
  try {
    const value = await DOES[what](fromWire(rest));
    return { id, value: toWire(value) ?? null };
  } catch (error) {
    const { name, message, id: errorId, code } = error;
    return { id, error: { name, message: String(message ?? error), id: errorId ?? code ?? null } };
  }
}

async function close() {
  for (const bus of Object.values(held.buses)) await bus.close?.();
  for (const client of held.clients) client.destroy();
  await held.store?.close?.();
}

// Only answers go to stdout.
console.log = console.info = console.debug = console.error;
const lines = createInterface({ input: process.stdin });
for await (const line of lines) {
  obey(line).then((answer) => process.stdout.write(`${JSON.stringify(answer)}\n`));
}
await close().catch(() => {});
process.exit(0);
