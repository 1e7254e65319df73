/** The verdict of AsyncAPI's own parser on the document read from stdin: {version, messages, diagnostics}. */
import { Parser } from '@asyncapi/parser'

const { document, diagnostics } = await new Parser().parse(await Bun.stdin.text())
console.log(
  JSON.stringify({
    version: document?.version(),
    messages: document?.allMessages().map(message => message.name()),
    diagnostics: diagnostics.map(({ code, path, message }) => ({ code, path: path.join('.'), message })),
  }),
)
