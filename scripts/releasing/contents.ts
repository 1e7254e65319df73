/** Finds the packages that are inside the program and its panel, and what each says about itself. */
import { readdir, readFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { buildWith, withoutColors } from '../build/plugins.ts'
import { panelBuild } from '../panel.ts'

const root = resolve(import.meta.dirname, '../..')

export interface Part {
  name: string
  version: string
  /** As the package states it, such as `MIT`. */
  license: string
  /** All licence texts and notices of the package. */
  text: string
  /** Sum of npm's package in base64, if the lock file has one. */
  sha512?: string
}

interface LockEntry {
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  optionalPeers?: string[]
}

interface Lock {
  workspaces: Record<string, { dependencies: object; devDependencies: object }>
  packages: Record<string, [spec: string, registry: string, LockEntry, integrity: string]>
}

export async function readLock(): Promise<Lock> {
  return Bun.JSONC.parse(await readFile(join(root, 'bun.lock'), 'utf8')) as Lock
}

/** Returns the files in the builds of the program for Bun and for Deno, and of the panel, with paths below the root. */
async function readInputs(): Promise<{ path: string; imports: string[] }[]> {
  const program: Bun.BuildConfig = { entrypoints: [join(root, 'src/main.ts')], format: 'esm', metafile: true }
  const builds = await Promise.all([
    buildWith({ withoutColors }, { ...program, target: 'bun' }),
    buildWith({ withoutColors }, { ...program, target: 'node' }),
    Bun.build({ ...panelBuild, metafile: true }),
  ])
  // The bundler writes them as seen from the working folder.
  const inRoot = (path: string) => relative(root, resolve(path))
  return builds.flatMap(({ metafile }) =>
    Object.entries(metafile!.inputs).map(([path, { imports }]) => ({
      path: inRoot(path),
      imports: imports.map(one => inRoot(one.path)),
    })),
  )
}

/** Returns the folder of the package that a file belongs to. */
const folderOf = (path: string): string | undefined => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]

/** Returns the key of a package in the lock file: `a`, or `a/b` for a `b` inside `a`. */
const keyOf = (folder: string): string =>
  folder.replace(/^.*?node_modules\//, '').replaceAll('/node_modules/', '/')

/**
 * Returns the keys of the packages that these need. A package that is here only because a tool of the tests needs it is
 * not among them.
 */
export function findNeeded({ packages }: Pick<Lock, 'packages'>, names: readonly string[]): Set<string> {
  const needed = new Set<string>()
  const add = (name: string, inside: readonly string[]): void => {
    const places = inside.map((_, index) => [...inside.slice(0, inside.length - index), name])
    const place = places.find(one => packages[one.join('/')]) ?? [name]
    const key = place.join('/')
    const entry = packages[key]
    if (!entry || needed.has(key)) return
    needed.add(key)
    const { dependencies, optionalDependencies, peerDependencies, optionalPeers = [] } = entry[2]
    const peers = Object.keys(peerDependencies ?? {}).filter(peer => !optionalPeers.includes(peer))
    for (const one of [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers])
      add(one, place)
  }
  for (const name of names) add(name, [])
  return needed
}

/**
 * Returns the packages of which a file is in the program or the panel.
 *
 * @throws Error if one of them is not among the dependencies, is not the one in bun.lock, or has no licence text
 */
export async function listPackages(): Promise<Part[]> {
  const [lock, inputs] = await Promise.all([readLock(), readInputs()])
  const folders = [...new Set(inputs.flatMap(({ path }) => folderOf(path) ?? []))]
  // The panel is built in: what it imports is among the packages for development.
  const imported = inputs
    .filter(({ path }) => path.startsWith('admin/'))
    .flatMap(({ imports }) => imports.flatMap(path => folderOf(path) ?? []))
  const { dependencies, devDependencies } = lock.workspaces['']!
  const ofPanel = imported.map(keyOf).filter(name => name in devDependencies)
  const needed = findNeeded(lock, [...Object.keys(dependencies), ...ofPanel])
  const strays = folders.filter(folder => !needed.has(keyOf(folder)))
  if (strays.length > 0)
    throw new Error(`${strays.join(', ')}: built in, but neither a dependency nor needed by one`)
  const parts = await Promise.all(
    folders.map(async folder => {
      const part = await readPart(join(root, folder))
      const [spec, , , integrity] = lock.packages[keyOf(folder)]!
      if (spec !== `${part.name}@${part.version}`)
        throw new Error(`${folder} is ${part.version}, and bun.lock has ${spec}`)
      return { ...part, sha512: integrity.replace('sha512-', '') }
    }),
  )
  return parts.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Texts of licences that the packages lack. */
export const keptTexts: string = join(import.meta.dirname, 'licenses')

const isLicense = /^(un)?licen[cs]e|^copying|^notice/i
const normalize = (text: string) =>
  text
    .replaceAll('\r\n', '\n')
    .replaceAll(/[ \t]+$/gm, '')
    .trim()

/**
 * Reads what an unpacked package says about itself. For a package without a text, `licenses/NAME.txt` has the one of its
 * repository; `micromark.txt` is also for `micromark-util-chunked`.
 *
 * @throws Error if there is no text
 */
export async function readPart(folder: string): Promise<Part> {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  const files = await readdir(folder, { withFileTypes: true })
  const named = files.filter(file => file.isFile() && isLicense.test(file.name)).map(file => file.name)
  const texts = await Promise.all(named.sort().map(file => readFile(join(folder, file), 'utf8')))
  if (texts.length === 0) {
    const readme = await readFile(join(folder, 'README.md'), 'utf8').catch(() => '')
    const section = /^#+ *licen[cs]e\s*\n([\s\S]*)/im.exec(readme)?.[1] ?? ''
    // Many only name the licence there.
    texts.push(section.includes('Permission is hereby granted') ? section : await readKept(name))
  }
  if (typeof license !== 'string') throw new Error(`${name} ${version} states no licence`)
  return { name, version, license, text: texts.map(normalize).join('\n\n') }
}

export async function readKept(name: string): Promise<string> {
  const own = name.replace('@', '').replace('/', '-')
  const stems = (await readdir(keptTexts)).map(file => file.replace(/\.txt$/, ''))
  const stem = stems.find(one => own === one || own.startsWith(`${one}-`))
  if (stem) return readFile(join(keptTexts, `${stem}.txt`), 'utf8')
  throw new Error(
    `${name} has no licence text; its repository may have one, for ${join(keptTexts, `${own}.txt`)}`,
  )
}
