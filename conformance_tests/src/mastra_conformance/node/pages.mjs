// A web page's side: the AI SDK reads the stream that we send, and checks the messages.

const PACKAGES = { v5: 'ai', v6: 'ai-v6' };

const texts = (errors) => errors.map((error) => String(error?.message ?? error));

/**
 * What a page shows in the end, and every state on the way there.
 *
 * `frames` are the bytes of our response, `last` is the message that the page shows already and
 * that the answer goes on with.
 */
export async function readPage(require, { version, frames, headers, last = null }) {
  const { DefaultChatTransport, readUIMessageStream } = require(PACKAGES[version]);
  const transport = new DefaultChatTransport({
    fetch: async () => new Response(frames, { status: 200, headers }),
  });
  const stream = await transport.sendMessages({
    trigger: 'submit-message',
    chatId: 'page',
    messages: last ? [last] : [],
    abortSignal: undefined,
  });
  const [seen, read] = stream.tee();
  const errors = [];
  const states = [];
  const reading = (async () => {
    const messages = readUIMessageStream({
      stream: read,
      ...(last ? { message: structuredClone(last) } : {}),
      onError: (error) => errors.push(error),
    });
    for await (const message of messages) states.push(structuredClone(message));
  })();
  const chunks = [];
  const taking = (async () => {
    for await (const chunk of seen) chunks.push(chunk);
  })();
  for (const done of await Promise.allSettled([reading, taking])) {
    if (done.status === 'rejected') errors.push(done.reason);
  }
  return {
    chunks: chunks.map((chunk) => chunk.type),
    states: states.length,
    message: states.at(-1) ?? null,
    errors: texts(errors),
  };
}

/** Whether a page takes these messages; what its server would show a model of them. */
export async function checkMessages(require, { version, messages }) {
  const { convertToModelMessages, validateUIMessages } = require(PACKAGES[version]);
  const valid = await validateUIMessages({ messages });
  const turns = await convertToModelMessages(valid);
  return { count: valid.length, roles: turns.map((turn) => turn.role) };
}
