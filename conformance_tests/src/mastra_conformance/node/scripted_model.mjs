// A language model that says what a script says: one list of parts per request.
//
// Parts: {"text": "…"}, {"tool": "deploy", "id": "call_1", "input": {…}} or {"gate": "name"}, at
// which it stands until a test opens the gate or somebody aborts the request.

const USAGE = { inputTokens: 10, outputTokens: 5, totalTokens: 15 };

/** Named places where a script waits until a test opens them. */
export class Gates {
  #places = new Map();

  #place(name) {
    if (!this.#places.has(name)) {
      this.#places.set(name, {
        reached: Promise.withResolvers(),
        opened: Promise.withResolvers(),
      });
    }
    return this.#places.get(name);
  }

  async wait(name, abortSignal) {
    const place = this.#place(name);
    place.reached.resolve();
    await Promise.race([place.opened.promise, aborted(abortSignal)]);
  }

  async reached(name) {
    await this.#place(name).reached.promise;
  }

  open(name) {
    this.#place(name).opened.resolve();
  }
}

/** Fails as a request over a network does when it is aborted. */
function aborted(abortSignal) {
  return new Promise((_, fail) => {
    const give = () => fail(new DOMException('This operation was aborted', 'AbortError'));
    if (abortSignal?.aborted) give();
    abortSignal?.addEventListener('abort', give, { once: true });
  });
}

async function* streamParts(parts, gates, abortSignal) {
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'response-metadata', id: 'response', modelId: 'mock-1', timestamp: new Date() };
  for (const [number, part] of parts.entries()) {
    if (part.gate !== undefined) {
      await gates.wait(part.gate, abortSignal);
    } else if (part.text !== undefined) {
      const id = `text-${number}`;
      yield { type: 'text-start', id };
      yield { type: 'text-delta', id, delta: part.text };
      yield { type: 'text-end', id };
    } else {
      yield {
        type: 'tool-call',
        toolCallId: part.id,
        toolName: part.tool,
        input: JSON.stringify(part.input ?? {}),
      };
    }
  }
  const finishReason = parts.some((part) => part.tool) ? 'tool-calls' : 'stop';
  yield { type: 'finish', finishReason, usage: USAGE };
}

/** Keeps in `requests` the prompts that it was given. */
export function scriptedModel(script, { gates = new Gates(), requests = [] } = {}) {
  let request = 0;
  const next = ({ prompt }) => {
    requests.push(prompt);
    return script[request++] ?? [{ text: 'extra' }];
  };
  return {
    specificationVersion: 'v2',
    provider: 'mock',
    modelId: 'mock-1',
    supportedUrls: {},
    doStream: async (options) => ({
      stream: ReadableStream.from(streamParts(next(options), gates, options.abortSignal)),
    }),
    doGenerate: async (options) => {
      const parts = next(options);
      return {
        content: parts.map((part) =>
          part.text !== undefined
            ? { type: 'text', text: part.text }
            : {
                type: 'tool-call',
                toolCallId: part.id,
                toolName: part.tool,
                input: JSON.stringify(part.input ?? {}),
              },
        ),
        finishReason: parts.some((part) => part.tool) ? 'tool-calls' : 'stop',
        usage: USAGE,
        warnings: [],
      };
    },
  };
}
