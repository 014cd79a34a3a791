// A language model that says what a script says: one list of parts per request.
//
// Parts: {"text": "…"} or {"tool": "deploy", "id": "call_1", "input": {…}}.

const USAGE = { inputTokens: 10, outputTokens: 5, totalTokens: 15 };

function* streamParts(parts) {
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'response-metadata', id: 'response', modelId: 'mock-1', timestamp: new Date() };
  for (const [number, part] of parts.entries()) {
    if (part.text !== undefined) {
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

export function scriptedModel(script) {
  let request = 0;
  const next = () => script[request++] ?? [{ text: 'extra' }];
  return {
    specificationVersion: 'v2',
    provider: 'mock',
    modelId: 'mock-1',
    supportedUrls: {},
    doStream: async () => ({ stream: ReadableStream.from(streamParts(next())) }),
    doGenerate: async () => {
      const parts = next();
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
