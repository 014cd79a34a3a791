// Threads that other processes reach, as an agent of the TypeScript system has them.

/** What matters of a chunk; errors of this process have no form on the wire. */
function shown({ type, runId, payload, data }) {
  const error = payload?.error;
  return {
    type,
    runId,
    ...(payload?.text === undefined ? {} : { text: payload.text }),
    ...(error === undefined ? {} : { error: String(error?.message ?? error) }),
    ...(data === undefined ? {} : { data: { id: data.id, contents: data.contents } }),
  };
}

export class Threads {
  #agents;
  #readers = new Map();

  constructor(agents) {
    this.#agents = agents;
  }

  /** Sends, and waits until that is accepted; a run that it woke goes on by itself. */
  async send({ agent, contents, target, method = 'sendMessage' }) {
    const { signal, accepted, persisted } = this.#agents[agent][method](contents, target);
    const { action, runId } = await accepted;
    await persisted;
    return { signal, action, runId: runId ?? null };
  }

  /** Begins a run in the background that waits until the thread is free. */
  async begin({ agent, contents, options }) {
    this.#agents[agent].stream(contents, options).then((output) => output.consumeStream());
  }

  async follow({ agent, target, as }) {
    const subscription = await this.#agents[agent].subscribeToThread(target);
    const reader = { subscription, chunks: [] };
    this.#readers.set(as, reader);
    const read = async () => {
      for await (const chunk of subscription.stream) reader.chunks.push(shown(chunk));
    };
    read();
  }

  async followed({ as }) {
    const { subscription, chunks } = this.#readers.get(as);
    return { chunks, activeRunId: subscription.activeRunId() };
  }
}
