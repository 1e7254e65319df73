/**
 * `bun scripts/releasing/licenses.ts`: writes the licences of all that ships into the file that `svc licenses` prints. Run
 * it after a change of dependencies. A release has the same text as THIRD_PARTY_NOTICES.txt.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { version as scalarVersion } from '../scalar.ts'
import { keptTexts, listPackages, type Part, readKept } from './contents.ts'

const file = resolve(import.meta.dirname, '../../src/cli/licenses.txt.br')

/** Returns the packages inside Scalar, as `scripts/scalar.ts` found them. */
export async function listScalarParts(): Promise<Part[]> {
  return JSON.parse(await readFile(join(keptTexts, 'scalar.json'), 'utf8'))
}

const howToRelink =
  () => `Each binary is svc and the runtime Bun ${Bun.version} in one file. Bun contains JavaScriptCore under the LGPL, version 2, and TinyCC under
the LGPL, version 2.1. Their sources:

  https://github.com/oven-sh/WebKit/tree/${process.versions.webkit}
  https://github.com/oven-sh/tinycc/tree/${process.versions.tinycc}
  https://github.com/oven-sh/bun/tree/${Bun.revision}

To use a changed version of these libraries in svc, build a Bun with it, as Bun's text below says. Then, in the sources of this
version of svc, after ./scripts/start has run once:

  PATH-TO-YOUR-BUN scripts/build.ts --outfile=svc

svc.mjs and the npm package contain no Bun.`

/** Joins the texts; one that several packages share is there once. */
export function formatNotices(parts: readonly Part[]): string {
  const byText = Map.groupBy(parts, part => part.text)
  const line = '='.repeat(80)
  const sections = [...byText].map(([text, those]) => {
    const names = those.map(({ name, version, license }) =>
      [name, version, license && `(${license})`].join(' ').trim(),
    )
    return `${line}\n${names.join('\n')}\n${line}\n\n${text.trim()}\n`
  })
  return `svc contains the works of others. Their names, versions, licences and texts follow.\n\n${sections.join('\n')}`
}

/**
 * Returns the text with all licences.
 *
 * @throws Error if a text is missing, or is for another version of Bun
 */
async function createNotices(): Promise<string> {
  const kept = (name: string) => readFile(join(keptTexts, `${name}.txt`), 'utf8')
  const bun = await kept('bun')
  if (!bun.includes(`Bun ${Bun.version}.`))
    throw new Error(
      `${keptTexts}/bun.txt is not for Bun ${Bun.version}: compare it with LICENSE.md of that version`,
    )
  const own = (name: string, version: string, license: string, text: string): Part => ({
    name,
    version,
    license,
    text,
  })
  return formatNotices([
    own('How to use other versions of the LGPL’s parts', '', '', howToRelink()),
    own('Bun', Bun.version, 'MIT', bun),
    own('JavaScriptCore, in Bun', '', 'LGPL-2.0-or-later', await kept('LGPL-2.0')),
    own('TinyCC, in Bun', '', 'LGPL-2.1-or-later', await kept('LGPL-2.1')),
    own('silk.wasm', '', 'BSD-3-Clause-Clear AND BSD-2-Clause AND MIT', await kept('silk')),
    own('@scalar/api-reference', scalarVersion, 'MIT', await readKept('@scalar/api-reference')),
    ...(await listPackages()),
    ...(await listScalarParts()),
  ])
}

/**
 * Returns the text that the program has.
 *
 * @throws Error if it does not match what is built in
 */
export async function readNotices(): Promise<string> {
  const text = brotliDecompressSync(await readFile(file)).toString()
  if (text !== (await createNotices()))
    throw new Error(
      'src/cli/licenses.txt.br is older than the dependencies: bun scripts/releasing/licenses.ts',
    )
  return text
}

if (import.meta.main) {
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  await writeFile(file, brotliCompressSync(await createNotices(), { params }))
}
