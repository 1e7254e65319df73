/** Spectral's verdict on the document read from stdin: a JSON array of {severity, code, path, message}. */
import { Spectral } from '@stoplight/spectral-core'
import { oas } from '@stoplight/spectral-rulesets'

const spectral = new Spectral()
spectral.setRuleset({ extends: [[oas, 'recommended']] })
const found = await spectral.run((await Bun.stdin.json()) as Record<string, unknown>)
console.log(
  JSON.stringify(
    found.map(({ severity, code, path, message }) => ({ severity, code, path: path.join('.'), message })),
  ),
)
