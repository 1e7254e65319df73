/**
 * `bun scripts/releasing/bill.ts FOLDER`: writes the bill of materials, which lists what is inside the files of a release as
 * CycloneDX 1.6, and the licences of all that. The same commit gives the same bytes.
 */
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'
import pkg from '../../package.json' with { type: 'json' }
import { targets } from '../build/targets.ts'
import { packageSha512, version as scalarVersion } from '../scalar.ts'
import { listPackages, type Part, readLock } from './contents.ts'
import { listScalarParts, readNotices } from './licenses.ts'
import { gitIn } from './run.ts'

export const billFile = 'svc.cdx.json'

/** Parts of Bun with a version of their own: repository and licence. */
const bunParts: Record<string, [place: string, license: string]> = {
  ares: ['github/c-ares/c-ares', 'MIT'],
  boringssl: ['github/oven-sh/boringssl', 'Apache-2.0 AND ISC AND OpenSSL'],
  icu: ['generic/icu', 'Unicode-3.0'],
  libarchive: ['github/libarchive/libarchive', 'BSD-2-Clause'],
  libdeflate: ['github/ebiggers/libdeflate', 'MIT'],
  llhttp: ['npm/llhttp', 'MIT'],
  lolhtml: ['github/cloudflare/lol-html', 'BSD-3-Clause'],
  lshpack: ['github/litespeedtech/ls-hpack', 'MIT'],
  mimalloc: ['github/oven-sh/mimalloc', 'MIT'],
  picohttpparser: ['github/h2o/picohttpparser', 'MIT'],
  sqlite: ['generic/sqlite', 'blessing'],
  tinycc: ['github/oven-sh/tinycc', 'LGPL-2.1-or-later'],
  uv: ['github/libuv/libuv', 'MIT'],
  webkit: ['github/oven-sh/webkit', 'LGPL-2.0-or-later AND BSD-2-Clause'],
  zlib: ['github/zlib-ng/zlib-ng', 'Zlib'],
  zstd: ['github/facebook/zstd', 'BSD-3-Clause'],
}

const purlOf = (name: string, version: string) => `pkg:npm/${name.replace('@', '%40')}@${version}`

const formatHash = (base64: string | undefined) =>
  base64 && { hashes: [{ alg: 'SHA-512', content: Buffer.from(base64, 'base64').toString('hex') }] }

/** @param inside the reference of the component that it is a part of, since two may have the same package inside */
function describePackage({ name, version, license, sha512 }: Omit<Part, 'text'>, inside = '') {
  const purl = purlOf(name, version)
  const [group, own] = name.startsWith('@') ? name.split('/') : [undefined, name]
  return {
    type: 'library',
    'bom-ref': `${inside}${purl}`,
    ...(group !== undefined && { group }),
    name: own,
    version,
    ...formatHash(sha512),
    licenses: [{ expression: license }],
    purl,
  }
}

function describeBun() {
  const ref = purlOf('bun', Bun.version)
  const components = Object.entries(bunParts).map(([name, [place, license]]) => {
    const version = process.versions[name]
    if (version === undefined)
      throw new Error(`Bun ${Bun.version} names no version of ${name}: change the list of its parts`)
    const purl = `pkg:${place}@${version}`
    return {
      type: 'library',
      'bom-ref': `${ref}#${name}`,
      name,
      version,
      licenses: [{ expression: license }],
      purl,
    }
  })
  return {
    ...describePackage({ name: 'bun', version: Bun.version, license: 'MIT' }),
    type: 'platform',
    properties: [{ name: 'git:commit', value: Bun.revision }],
    components,
  }
}

/** @param seconds time of the commit */
export async function createBill(commit: string, seconds: number): Promise<string> {
  const [packages, inside, lock] = await Promise.all([listPackages(), listScalarParts(), readLock()])
  const scalar = purlOf('@scalar/api-reference', scalarVersion)
  const runtimes = targets.map(({ runtime: name, file }) => {
    const sha512 = lock.packages[name]!.at(-1) as string
    const part = { name, version: Bun.version, license: 'MIT', sha512: sha512.replace('sha512-', '') }
    return { ...describePackage(part), type: 'platform', description: `the Bun in ${file}` }
  })
  const bun = describeBun()
  const self = purlOf(pkg.name, pkg.version)
  const components = [
    ...packages.map(one => describePackage(one)),
    {
      ...describePackage({
        name: '@scalar/api-reference',
        version: scalarVersion,
        license: 'MIT',
        sha512: packageSha512,
      }),
      description: 'its file dist/browser/standalone.js',
      components: inside.map(one => describePackage(one, `${scalar}#`)),
    },
    {
      type: 'file',
      'bom-ref': 'silk.wasm',
      name: 'silk.wasm',
      description: 'in silk-wasm: SILK SDK 1.0.9 of Skype, and libSilkCodec',
      licenses: [{ expression: 'BSD-3-Clause-Clear AND BSD-2-Clause AND MIT' }],
    },
    bun,
    ...runtimes,
  ]
  const body = {
    metadata: {
      timestamp: new Date(seconds * 1000).toISOString(),
      component: {
        ...describePackage({ name: pkg.name, version: pkg.version, license: pkg.license }),
        type: 'application',
        properties: [{ name: 'git:commit', value: commit }],
      },
    },
    components,
    dependencies: [{ ref: self, dependsOn: components.map(one => one['bom-ref']).sort() }],
    // Bun has parts that state no version.
    compositions: [{ aggregate: 'incomplete', assemblies: [bun['bom-ref']] }],
  }
  const hash = createHash('sha256').update(JSON.stringify(body)).digest('hex')
  const uuid = hash.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5')
  const head = { bomFormat: 'CycloneDX', specVersion: '1.6', serialNumber: `urn:uuid:${uuid}`, version: 1 }
  return `${JSON.stringify({ $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json', ...head, ...body }, null, 2)}\n`
}

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? 'dist')
  const [commit = '', seconds] = (await gitIn(import.meta.dirname)('log', '-1', '--format=%H %ct')).split(' ')
  await writeFile(join(folder, billFile), await createBill(commit, Number(seconds)), { mode: 0o644 })
  await writeFile(join(folder, 'THIRD_PARTY_NOTICES.txt'), await readNotices(), { mode: 0o644 })
}
