/** Spectral's verdict on the document read from stdin, by the ruleset that is named: a JSON array of {severity, code, path, message}. */
import { Spectral } from '@stoplight/spectral-core'
import { asyncapi, oas } from '@stoplight/spectral-rulesets'

const ruleset = process.argv[2] === 'asyncapi' ? asyncapi : oas
const spectral = new Spectral()
spectral.setRuleset({ extends: [[ruleset, 'recommended']] })
const found = await spectral.run((await Bun.stdin.json()) as Record<string, unknown>)
console.log(
  JSON.stringify(
    found.map(({ severity, code, path, message }) => ({ severity, code, path: path.join('.'), message })),
  ),
)
