/** The rules of the house that a machine can check: who may import whom, and which words live where. */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

const root = resolve(import.meta.dir, '..')
const src = join(root, 'src')
const admin = join(root, 'admin')

/** The rooms of a folder as its README has them: a row may not see those below it, nor rooms of one row each other. */
function rowsOf(folder: string): string[][] {
  const [, section = ''] = readFileSync(join(folder, 'README.md'), 'utf8').split(/^## Rooms$/m)
  const [table = ''] = section.split(/^## /m)
  const cells = [...table.matchAll(/^\| (`[^|]*`) \|/gm)].map(([, cell = '']) => cell)
  return cells.map(cell => [...cell.matchAll(/`([\w-]+)`/g)].map(([, room = '']) => room))
}

interface Source {
  /** Relative to its folder, with slashes. */
  path: string
  room: string
  /** Without comments. */
  code: string
  /** Without comments and without the content of texts. */
  bare: string
  imports: string[]
  /** Where relative imports lead, relative to the folder. */
  targets: string[]
}

const texts = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/
const textOrComment = new RegExp(`(${texts.source})|/\\*[\\s\\S]*?\\*/|//[^\\n]*`, 'g')
const imported = /\b(?:from|import)\s*\(?\s*(['"])([^'"\n]+)\1/g

const roomOf = (path: string) => path.split('/')[0]!.replace(/\.tsx?$/, '')

function read(folder: string, path: string): Source {
  const raw = readFileSync(join(folder, path), 'utf8')
  const code = raw.replace(textOrComment, (_all, text?: string) => text ?? ' ')
  const bare = code.replace(new RegExp(texts.source, 'g'), text => (text.startsWith('`') ? text : "''"))
  const imports = [...code.matchAll(imported)].map(match => match[2]!)
  const targets = imports.flatMap(specifier => targetOf(folder, path, specifier) ?? [])
  return { path, room: roomOf(path), code, bare, imports, targets }
}

/** Where a relative import leads, relative to the folder; undefined for packages. */
const targetOf = (folder: string, from: string, specifier: string) =>
  specifier.startsWith('.')
    ? relative(folder, resolve(folder, dirname(from), specifier)).replaceAll(sep, '/')
    : undefined

const sourcesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map(path => path.replaceAll(sep, '/'))
    .filter(path => /\.tsx?$/.test(path) && !path.endsWith('.d.ts'))
    .map(path => read(folder, path))

const sources = sourcesOf(src)
const pages = sourcesOf(admin)
const houses = [
  ['src', sources, rowsOf(src)],
  ['admin', pages, rowsOf(admin)],
] as const

/** `file: what` for each place of a pattern. */
const placesOf = (pattern: RegExp, allowed: (source: Source) => boolean, text: (source: Source) => string) =>
  sources
    .filter(source => !allowed(source))
    .flatMap(source => [...text(source).matchAll(pattern)].map(match => `${source.path}: ${match[0].trim()}`))

const inPlatform = ({ room }: Source) => room === 'platform'
const bareOf = (source: Source) => source.bare

describe.each(houses)('%s', (name, files, rows) => {
  test('there is something to look at, and the rooms are those of its README', () => {
    expect(files.length).toBeGreaterThan(20)
    expect(files.flatMap(({ imports }) => imports).length).toBeGreaterThan(100)
    expect([...new Set(files.map(({ room }) => room))].sort()).toEqual(rows.flat().sort())
  })

  test('imports only go down', () => {
    const stepOf = (room: string) => rows.findIndex(rooms => rooms.includes(room))
    const upward = files.flatMap(({ path, room, targets }) =>
      targets.flatMap(target => {
        if (roomOf(target) === room) return []
        // Files that are embedded by path; a package's own exports may bar the short way.
        if (target.startsWith('../node_modules/')) return []
        if (target === '../package.json' && room === 'version') return []
        // See below.
        if (name === 'admin' && target.startsWith('../')) return []
        return stepOf(roomOf(target)) < stepOf(room) ? [] : [`${path} → ${target}`]
      }),
    )
    expect(upward).toEqual([])
  })

  test('no file imports itself, over whatever way', () => {
    const graph = new Map(files.map(({ path, targets }) => [path, targets]))
    const cycles: string[] = []
    const done = new Set<string>()
    const visit = (path: string, way: string[]) => {
      const at = way.indexOf(path)
      if (at >= 0) cycles.push([...way.slice(at), path].join(' → '))
      if (at >= 0 || done.has(path)) return
      for (const target of graph.get(path) ?? []) visit(target, [...way, path])
      done.add(path)
    }
    for (const path of graph.keys()) visit(path, [])
    expect(cycles).toEqual([])
  })

  test('relative imports name the file they mean, with its extension', () => {
    const vague = files.flatMap(({ path, imports }) =>
      imports
        .filter(specifier => specifier.startsWith('.') && !/\.\w+$/.test(specifier))
        .map(specifier => `${path}: ${specifier}`),
    )
    expect(vague).toEqual([])
  })
})

test('the page knows the service by its types; it counts answers and shows initials by the same code', () => {
  const statement = /\b(?:import|export)\b\s*(type\b)?[^'"]*?(['"])(\.[^'"\n]+)\2/g
  const values = pages.flatMap(({ path, code }) =>
    [...code.matchAll(statement)].flatMap(([, isType, , specifier = '']) => {
      const target = targetOf(admin, path, specifier) ?? ''
      return isType === undefined && target.startsWith('../') ? [`${path} → ${target}`] : []
    }),
  )
  expect(values.sort()).toEqual([
    'conversations/pieces.ts → ../src/send/split.ts',
    'talks.ts → ../src/send/sent-order.ts',
    'talks.ts → ../src/send/sent-order.ts',
    'users/avatar.tsx → ../src/model/avatar.ts',
  ])
})

test('what the window is like is asked in one place of the page, which hears of a change', () => {
  const asks = /\b(?:matchMedia|inner(?:Width|Height)|devicePixelRatio|visualViewport)\b/
  expect(pages.filter(({ bare }) => asks.test(bare)).map(({ path }) => path)).toEqual(['screen.ts'])
})

test('how svc keeps what it keeps is known to few: all others are given the interfaces in storage', () => {
  const knows = (target: RegExp, allowed: RegExp) =>
    sources.flatMap(({ path, targets }) =>
      targets.filter(found => target.test(found) && !allowed.test(path)).map(found => `${path} → ${found}`),
    )
  // Besides who assembles and who looks without opening: the mover and a restore write before svc runs.
  expect(
    knows(
      /^storage\/sqlite\//,
      /^(storage\/sqlite|migrate|inspect|backup)\/|^gateway\/(foundations|directory|secrets)\.ts/,
    ),
  ).toEqual([])
  // What lies in a data directory is for who keeps it, who moves in, and who looks at it as it lies there.
  const directory =
    /^(storage\/(sqlite|sealed-places)|platform|config|migrate|inspect|doctor|sandbox|model|backup)\b/
  expect(knows(/^model\/data-files\.ts$/, directory)).toEqual([])
  const file =
    /'(messages\.db|\.(?:poll|data)\.lock|(?:token|contexts)\.json|\.default_session|\.address|api_token)'/g
  expect(
    placesOf(
      file,
      ({ path }) => directory.test(path),
      ({ code }) => code,
    ),
  ).toEqual([])
  const engines = /^(storage\/sqlite|platform|migrate|inspect|sandbox|backup)\//
  expect(knows(/^platform\/(sqlite|lock|lock-engine|lock-folder)\.ts/, engines)).toEqual([])
})

test('doors call operations through the gate, and what operations do by no other way', () => {
  const rooms = ['server', 'mcp', 'relay', 'library', 'cli']
  const inDoors = (pattern: RegExp) => placesOf(pattern, ({ room }) => !rooms.includes(room), bareOf)
  expect(inDoors(/\b(?:operation|tool|one|verbs\.\w+|\w+(?:Webhooks?|Outbox|Users?))\.run\(/g)).toEqual([])
  // These ask for no right: the process has a life and a clock, a door counts what it answered, and a door asks the
  // sign-ins and the keys who calls before it asks the gate. What a door keeps it drops when a user was erased.
  // The relay is no door before it has a program, and a program that logs in has no key yet.
  const ofCaller = 'signIns|keys(?!\\.(?:add|list|get|rotate|revoke)\\b)'
  const ofProcess = `start|people\\.countErasures|listensAt|watchCertificate|leave|endSends|close|clock|tasks|metrics\\.answered|relays\\.hasAny|relayLogins\\.(?:ask|poll)|${ofCaller}`
  const called = new RegExp(`\\bgateway\\??\\.(?!(?:${ofProcess})\\b)\\w+`, 'g')
  const takenOut =
    /\{(?!\s*clock\s*\})[^{}]*\}\s*(?:=\s*[\w.#]*\bgateway\b(?!\.)|:\s*(?:Pick<)?(?:Running)?Gateway\b)/g
  // The gate gives the headers of an answer too, after it has let its operation through. A call without a valid
  // token never comes to the gate, and is counted.
  const handedOn =
    /(?<!\b(?:invoke|answerHeadersOf|createFailureCounter|new (?:Svc|Calls)))\((?:[^(){}]*,\s*)?(?:[\w.#]+\.)?gateway\s*[,)]/g
  for (const pattern of [called, takenOut, handedOn]) {
    expect(inDoors(pattern)).toEqual([])
    expect(placesOf(pattern, ({ room }) => room !== 'operations', bareOf)).not.toEqual([])
  }
})

test('only platform knows the runtime, and loads what one of them lacks when it is needed', () => {
  expect(placesOf(/(?<![\w.'-])(?:Bun|Deno)\s*(?:\.|\[|\?\.)/g, inPlatform, bareOf)).toEqual([])
  const bunModules = sources.filter(({ imports }) => imports.some(name => /^bun(:|$)/.test(name)))
  expect(bunModules.filter(source => !inPlatform(source)).map(({ path }) => path)).toEqual([])
  // Deno stops at a static import of `bun:…`, whether it is reached or not.
  expect(
    placesOf(
      /(?:^|\n)\s*(?:import|export)\s[^;(]*?from\s+['"]bun\b/g,
      () => false,
      ({ code }) => code,
    ),
  ).toEqual([])
})

test('only config reads the environment', () => {
  const ofConfig = ({ path }: Source) => path === 'config.ts'
  // To start itself anew and past a proxy, the process hands its environment on; of ours it reads nothing there.
  const handsOn = ({ path }: Source) => path === 'platform/process.ts'
  const reading =
    /\b(?:process|import\.meta|Bun)\s*\.\s*env\b|\bimport\s*\{[^}]*\benv\b[^}]*\}\s*from\s*'(?:node:)?process'/g
  expect(
    placesOf(
      reading,
      source => ofConfig(source) || handsOn(source),
      ({ code }) => code,
    ),
  ).toEqual([])
  expect(
    placesOf(
      /\bSVC_\w*|\benv\.get\b|\benv\s*\.\s*(?!(?:no_proxy|HOME|LISTEN_(?:PID|FDS))\b)\w+/g,
      source => !handsOn(source),
      ({ code }) => code,
    ),
  ).toEqual([])
})

test('everything exported has a name', () => {
  expect(placesOf(/\bexport\s+default\b|\bas\s+default\b/g, () => false, bareOf)).toEqual([])
})

test('nothing is kept at module level that may change', () => {
  expect(placesOf(/(?:^|\n)(?:export\s+)?(?:let|var)\s+\w+/g, () => false, bareOf)).toEqual([])
})

test('types are neither silenced nor erased away', () => {
  expect(
    placesOf(
      /@ts-(?:ignore|nocheck|expect-error)/g,
      () => false,
      ({ path }) => readFileSync(join(src, path), 'utf8'),
    ),
  ).toEqual([])
  expect(placesOf(/\bas\s+any\b|:\s*any\b|<any>/g, () => false, bareOf)).toEqual([])
})

test('upstream’s spelling stays with those who speak to upstream', () => {
  const spelling =
    /\b(?:get_updates_buf|bot_token|ilink_bot_id|ilink_user_id|item_list|(?:from|to)_user_id|errmsg|context_token)\b/g
  expect(
    placesOf(
      spelling,
      // Other programs keep messages and cursors in upstream's words, and a secret in a message has such a name.
      ({ room, path }) =>
        /^(ilink|sandbox|migrate)$/.test(room) ||
        /^storage\/(sealed-places|postgres\/reader-functions)\.ts$/.test(path),
      ({ code }) => code,
    ),
  ).toEqual([])
})

test('no file is named after nothing', () => {
  const empty = /(^|\/)(utils?|helpers?|managers?|common|misc|data|info|lib)(\.tsx?$|\/)/i
  expect(sources.map(({ path }) => path).filter(path => empty.test(path))).toEqual([])
})

test('a rejection is waited for with failure(), which says why', () => {
  const own = ['architecture.test.ts', 'support/failure.ts']
  const tests = [...new Bun.Glob('**/*.ts').scanSync(import.meta.dirname)].filter(
    path => !path.includes('node_modules/') && !own.includes(path),
  )
  expect(tests.length).toBeGreaterThan(100)
  const nested = /\)\.(?:rejects|resolves)\./
  expect(tests.filter(path => nested.test(readFileSync(join(import.meta.dirname, path), 'utf8')))).toEqual([])
})

test('a usual test sleeps for no time of its own: it waits for what happens', () => {
  const sleeps = /(?:Bun\.sleep|waitForTimeout)\((\d[\d_]*)\)|setTimeout\(\w+, (\d[\d_]*)\)/g
  const found: string[] = []
  for (const path of new Bun.Glob('**/*.test.ts').scanSync({ cwd: import.meta.dir })) {
    if (path.includes('node_modules') || path.endsWith('.long.test.ts')) continue
    const text = readFileSync(join(import.meta.dir, path), 'utf8')
    // The step of a look is none.
    for (const [said, ...ms] of text.matchAll(sleeps))
      if (Number(ms.find(Boolean)?.replaceAll('_', '')) > 5) found.push(`${path}: ${said}`)
  }
  expect(found).toEqual([])
})

test('the paths and registries of one machine stay out', () => {
  const lock = readFileSync(join(root, 'bun.lock'), 'utf8')
  expect(lock.match(/https?:\/\/[^"\s]+/g) ?? []).toEqual([])
  expect(
    placesOf(
      new RegExp(`${RegExp.escape(root)}(?![\\w-])`, 'g'),
      () => false,
      ({ code }) => code,
    ),
  ).toEqual([])
})

/** Classes with more than ten fields, and how many each may have. Their docstrings say why. */
const largeClasses: Readonly<Record<string, number>> = {
  EndpointRun: 17,
  PgOutbox: 17,
  Core: 15,
  OutboxPlan: 13,
  SessionFiles: 12,
  PgNode: 11,
}

test('a class has at most ten fields, but for some that do not grow', () => {
  const classes = sources.flatMap(({ bare }) =>
    [
      ...bare.matchAll(
        /^(?:export )?(?:abstract )?class (\w+)(?:[^{}]|\{[^{}]*\}(?=>| &))*\{\n([\s\S]*?)^\}/gm,
      ),
    ].map(([, name = '', body = '']) => ({
      name,
      fields:
        body.match(/^ {2}(?!static|declare|get |set |async )(?:\w+ )*[#\w]+[?!]?(?::| =)/gm)?.length ?? 0,
    })),
  )
  expect(classes.length).toBeGreaterThan(150)
  expect(classes.some(({ fields }) => fields === 10)).toBe(true)
  expect(classes.filter(({ name, fields }) => fields > (largeClasses[name] ?? 10))).toEqual([])
})

test('every section of the protocol notes that a comment cites is there', () => {
  const notes = readFileSync(join(src, 'ilink/README.md'), 'utf8')
  const sections = new Set([...notes.matchAll(/^#{2,3} (\d(?:\.\d+)?)/gm)].map(match => match[1]!))
  const cited = [src, join(root, 'test'), join(root, 'scripts')].flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(path => /\.tsx?$/.test(path) && !path.includes('node_modules'))
      .flatMap(path =>
        [
          ...readFileSync(join(folder, path), 'utf8').matchAll(
            /\bnotes (\d(?:\.\d+)?(?:(?:, | and )\d(?:\.\d+)?)*)/g,
          ),
        ]
          .flatMap(match => match[1]!.split(/, | and /))
          .map(section => ({ path, section })),
      ),
  )
  expect(cited.length).toBeGreaterThan(30)
  expect(cited.filter(({ section }) => !sections.has(section))).toEqual([])
})
