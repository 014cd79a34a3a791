// The runtime of the TypeScript system, timed by itself: obeys one JSON line at a time.
//
// In: {"id": 1, "do": "runs", "chunks": 100, "calls": 20, "tasks": 1, "memory": "libsql", "url": …}
// Out: {"id": 1, "value": microseconds} or {"id": 1, "error": {"name", "message", "id"}}
// MASTRA_NODE_PACKAGES names the folder that holds node_modules; BENCH_CLOCK is wall or processor.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const require = createRequire(`${process.env.MASTRA_NODE_PACKAGES}/`);
const { Agent } = require('@mastra/core/agent');
const { Mastra } = require('@mastra/core/mastra');
const { InMemoryStore } = require('@mastra/core/storage');
const { Memory } = require('@mastra/memory');

/** Milliseconds, of the wall or of this process on a processor. */
const now =
  process.env.BENCH_CLOCK === 'processor'
    ? () => {
        const { user, system } = process.cpuUsage();
        return (user + system) / 1000;
      }
    : () => performance.now();
const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

// -- the model ----------------------------------------------------------------------------------

async function* answer(chunks) {
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'response-metadata', id: 'r', modelId: 'bench', timestamp: new Date(0) };
  yield { type: 'text-start', id: 't' };
  for (let number = 0; number < chunks; number += 1) {
    yield { type: 'text-delta', id: 't', delta: 'word ' };
  }
  yield { type: 'text-end', id: 't' };
  const usage = { inputTokens: 10, outputTokens: chunks, totalTokens: 10 + chunks };
  yield { type: 'finish', finishReason: 'stop', usage };
}

const model = (chunks) => ({
  specificationVersion: 'v2',
  provider: 'bench',
  modelId: 'bench',
  supportedUrls: {},
  doStream: async () => ({ stream: ReadableStream.from(answer(chunks)) }),
});

// -- what is timed ------------------------------------------------------------------------------

const agents = new Map();

async function agentOf({ chunks, memory = null, url = null }) {
  const key = `${chunks} ${memory}`;
  if (agents.has(key)) return agents.get(key);
  let storage = null;
  if (memory === 'process') storage = new InMemoryStore();
  if (memory === 'libsql') {
    storage = new (require('@mastra/libsql').LibSQLStore)({ id: 'bench', url });
    await storage.init();
  }
  const agent = new Agent({
    id: `bench-${chunks}`,
    name: 'bench',
    instructions: 'You help.',
    model: model(chunks),
    ...(storage ? { memory: new Memory({ storage, options: { lastMessages: 20 } }) } : {}),
  });
  new Mastra({ agents: { bench: agent }, logger: false, ...(storage ? { storage } : {}) });
  agents.set(key, agent);
  return agent;
}

let threads = 0;

async function once(agent, hasMemory) {
  threads += 1;
  const options = hasMemory ? { memory: { thread: `t${threads}`, resource: 'r' } } : {};
  const output = await agent.stream('Hello', options);
  let seen = 0;
  for await (const _ of output.fullStream) seen += 1;
  return seen;
}

/** Microseconds per run: of one caller the median, of many what each costs, all in all. */
async function runs({ calls, tasks = 1, ...rest }) {
  const agent = await agentOf(rest);
  const durations = [];
  let left = calls;
  const began = now();
  await Promise.all(
    Array.from({ length: tasks }, async () => {
      while (left > 0) {
        left -= 1;
        const start = now();
        await once(agent, Boolean(rest.memory));
        durations.push(now() - start);
      }
    }),
  );
  return 1000 * (tasks > 1 ? (now() - began) / calls : median(durations));
}

/** Microseconds per chunk and reader of a run that is read by several. */
async function readers({ chunks, count, calls }) {
  const agent = await agentOf({ chunks });
  const durations = [];
  for (let call = 0; call < calls; call += 1) {
    const start = now();
    const output = await agent.stream('Hello');
    await Promise.all(
      Array.from({ length: count }, async () => {
        for await (const _ of output.fullStream);
      }),
    );
    durations.push(now() - start);
  }
  return (1000 * median(durations)) / (chunks * count);
}

/** Microseconds from a message for an idle thread to the first chunk at its subscriber. */
async function wake({ calls }) {
  const agent = await agentOf({ chunks: 1, memory: 'process' });
  const durations = [];
  for (let call = 0; call < calls; call += 1) {
    threads += 1;
    const thread = { threadId: `t${threads}`, resourceId: 'r' };
    const subscription = await agent.subscribeToThread(thread);
    const stream = subscription.stream[Symbol.asyncIterator]();
    const start = now();
    await agent.sendMessage('Hello', thread).accepted;
    await stream.next();
    durations.push(now() - start);
    for (let next = await stream.next(); next.value?.type !== 'finish'; ) next = await stream.next();
    subscription.unsubscribe();
  }
  return 1000 * median(durations);
}

/** Bytes per chunk that a run holds while one of its two readers has read only one chunk. */
async function memory({ chunks }) {
  const agent = await agentOf({ chunks });
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  collect();
  const before = process.memoryUsage().heapUsed;
  const output = await agent.stream('Hello');
  const slow = output.fullStream[Symbol.asyncIterator]();
  await slow.next();
  for await (const _ of output.fullStream);
  collect();
  const held = process.memoryUsage().heapUsed - before;
  // Read on, so that the run and its slow reader are still there when they are weighed.
  await slow.next();
  return held / chunks;
}

// -- the loop -----------------------------------------------------------------------------------

const DOES = { runs, readers, wake, memory };

async function obey(line) {
  const { id, do: what, ...rest } = JSON.parse(line);
  try {
    return { id, value: await DOES[what](rest) };
  } catch (error) {
    return { id, error: { name: error.name, message: String(error.message ?? error), id: null } };
  }
}

// Only answers go to stdout.
console.log = console.info = console.debug = console.error;
for await (const line of createInterface({ input: process.stdin })) {
  obey(line).then((answer) => process.stdout.write(`${JSON.stringify(answer)}\n`));
}
process.exit(0);
