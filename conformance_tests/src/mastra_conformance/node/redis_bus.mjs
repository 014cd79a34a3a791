// A bus and leases on Redis for Node, in the wire format of pubsub_and_lease.md 9.1-9.3.
//
// It does what peers of wire baseline 1.71 do on Redis Streams: one field `event`, consumer groups,
// a private group per fan-out subscription, retries as new entries, leases as plain strings.
import { randomUUID } from 'node:crypto';

const RETRY_MS = 50;

const REFRESH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;
const TRANSFER = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

/** An event of the wire; its time is a Date again. */
function revived(text) {
  const event = JSON.parse(text);
  if (typeof event.createdAt === 'string') event.createdAt = new Date(event.createdAt);
  return event;
}

export class RedisBus {
  #redis;
  #url;
  #client;
  #readers = new Map();
  #closed = false;

  constructor(redis, url, options = {}) {
    this.#redis = redis;
    this.#url = url;
    this.options = {
      keyPrefix: 'mastra:topic',
      blockMs: 1000,
      maxStreamLength: 10000,
      reclaimIntervalMs: 30000,
      reclaimIdleMs: 60000,
      maxDeliveryAttempts: 5,
      ...options,
    };
  }

  get supportedModes() {
    return ['pull'];
  }

  get supportsNativeBatching() {
    return false;
  }

  get supportsOffsets() {
    return false;
  }

  async open() {
    this.#client = await this.#connected();
  }

  async #connected() {
    const client = this.#redis.createClient({ url: this.#url });
    client.on('error', (error) => process.stderr.write(`redis: ${error.message}\n`));
    await client.connect();
    return client;
  }

  #stream(topic) {
    return `${this.options.keyPrefix}:${topic}`;
  }

  // -- events -------------------------------------------------------------------------------------

  async publish(topic, event, { localOnly = false } = {}) {
    const stamped = {
      ...event,
      id: randomUUID(),
      createdAt: new Date(),
      deliveryAttempt: event.deliveryAttempt ?? 1,
    };
    if (localOnly) {
      for (const reader of this.#readers.values()) {
        if (reader.topic === topic) await reader.callback(stamped);
      }
      return;
    }
    await this.#append(topic, stamped);
  }

  async #append(topic, event) {
    const { maxStreamLength } = this.options;
    const trim = maxStreamLength
      ? { TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: maxStreamLength } }
      : {};
    await this.#client.xAdd(this.#stream(topic), '*', { event: JSON.stringify(event) }, trim);
  }

  async subscribe(topic, callback, { group, startFrom = 'earliest' } = {}) {
    const reader = {
      topic,
      callback,
      group: group ?? `__fanout-${randomUUID()}`,
      isPrivate: !group,
      anchor: startFrom === 'latest' ? '$' : '0',
      stopped: false,
      running: new Set(),
      client: await this.#connected(),
    };
    reader.consumer = `${reader.group}-${randomUUID()}`;
    await this.#makeGroup(reader, reader.anchor);
    this.#readers.set(callback, reader);
    reader.done = this.#read(reader);
    reader.reclaiming = setInterval(
      () => this.#reclaim(reader).catch(() => {}),
      this.options.reclaimIntervalMs,
    );
    reader.reclaiming.unref();
  }

  async #makeGroup(reader, anchor) {
    try {
      await this.#client.xGroupCreate(this.#stream(reader.topic), reader.group, anchor, {
        MKSTREAM: true,
      });
    } catch (error) {
      if (!error.message.includes('BUSYGROUP')) throw error;
    }
  }

  async #read(reader) {
    const stream = this.#stream(reader.topic);
    while (!reader.stopped) {
      try {
        const answer = await reader.client.xReadGroup(
          reader.group,
          reader.consumer,
          { key: stream, id: '>' },
          { COUNT: 10, BLOCK: this.options.blockMs },
        );
        for (const { messages } of answer ?? []) {
          for (const { id, message } of messages) this.#deliver(reader, id, message);
        }
      } catch (error) {
        if (reader.stopped) return;
        if (/NOGROUP|UNBLOCKED/.test(error.message)) await this.#makeGroup(reader, '0');
        await new Promise((go) => setTimeout(go, RETRY_MS));
      }
    }
  }

  #deliver(reader, id, message) {
    const stream = this.#stream(reader.topic);
    const settle = () => this.#client.xAck(stream, reader.group, id);
    if (!message?.event) return void settle();
    const event = revived(message.event);
    reader.running.add(id);
    let settled = false;
    const once = async (act) => {
      if (settled) return;
      settled = true;
      reader.running.delete(id);
      await act();
    };
    const ack = () => once(settle);
    const nack = () =>
      once(async () => {
        const attempt = event.deliveryAttempt ?? 1;
        if (attempt < this.options.maxDeliveryAttempts) {
          await this.#append(reader.topic, { ...event, deliveryAttempt: attempt + 1 });
        }
        await settle();
      });
    Promise.resolve()
      .then(() => reader.callback(event, ack, nack))
      .then(() => (reader.isPrivate ? ack() : undefined))
      .catch(nack);
  }

  async #reclaim(reader) {
    const stream = this.#stream(reader.topic);
    const { reclaimIdleMs } = this.options;
    const pending = await this.#client.xPendingRange(stream, reader.group, '-', '+', 100, {
      IDLE: reclaimIdleMs,
    });
    const ids = pending.map(({ id }) => id).filter((id) => !reader.running.has(id));
    if (!ids.length) return;
    const taken = await this.#client.xClaim(
      stream,
      reader.group,
      reader.consumer,
      reclaimIdleMs,
      ids,
    );
    for (const entry of taken) if (entry) this.#deliver(reader, entry.id, entry.message);
  }

  async unsubscribe(topic, callback) {
    const reader = this.#readers.get(callback);
    if (!reader) return;
    this.#readers.delete(callback);
    reader.stopped = true;
    clearInterval(reader.reclaiming);
    reader.client.destroy();
    await reader.done;
    if (reader.isPrivate) {
      await this.#client.xGroupDestroy(this.#stream(topic), reader.group).catch(() => {});
    }
  }

  async flush() {}

  async clearTopic(topic) {
    await this.#client.del(this.#stream(topic));
  }

  async getHistory() {
    return [];
  }

  async subscribeWithReplay(topic, callback) {
    await this.subscribe(topic, callback);
  }

  async subscribeFromOffset(topic, offset, callback) {
    await this.subscribe(topic, callback);
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const [callback, { topic }] of [...this.#readers]) await this.unsubscribe(topic, callback);
    await this.#client.quit();
  }

  // -- leases -------------------------------------------------------------------------------------

  #lease(key) {
    return `${this.options.keyPrefix}:lease:${key}`;
  }

  #script(script, key, ...args) {
    return this.#client.eval(script, { keys: [this.#lease(key)], arguments: args.map(String) });
  }

  async acquireLease(key, owner, ttlMs) {
    const taken = await this.#client.set(this.#lease(key), owner, { NX: true, PX: ttlMs });
    if (taken === 'OK') return { acquired: true, owner };
    if (await this.#script(REFRESH, key, owner, ttlMs)) return { acquired: true, owner };
    return { acquired: false, owner: (await this.getLeaseOwner(key)) ?? undefined };
  }

  async getLeaseOwner(key) {
    return (await this.#client.get(this.#lease(key))) ?? undefined;
  }

  async releaseLease(key, owner) {
    await this.#script(RELEASE, key, owner);
  }

  async renewLease(key, owner, ttlMs) {
    return (await this.#script(REFRESH, key, owner, ttlMs)) === 1;
  }

  async transferLease(key, fromOwner, toOwner, ttlMs) {
    return (await this.#script(TRANSFER, key, fromOwner, toOwner, ttlMs)) === 1;
  }
}
