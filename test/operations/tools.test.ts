import { describe, expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { SvcError } from '../../src/model/error.ts'
import { invoke } from '../../src/operations/gate.ts'
import type { Tool } from '../../src/operations/operation.ts'
import { tools } from '../../src/operations/tools.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import { fieldsOf } from '../support/failure.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'

const tool = (name: string): Tool => {
  const found = tools.find(one => one.name === name)
  if (!found) throw new Error(`no tool ${name}`)
  return found
}

/** What the gateway is asked when this input comes. */
async function handedDown(name: string, input: unknown): Promise<unknown> {
  const gateway = new MemoryGateway()
  gateway.known.push({ name: 'a', connected: true, status: 'connected', is_default: true, user_count: 0 })
  await invoke(tool(name), gateway, input, createDirectCall(), silentLog)
  return gateway.asked[0]?.request
}

const failure = async (name: string, input: unknown): Promise<SvcError> => {
  const error = await handedDown(name, input).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof SvcError)) throw new Error(`expected a SvcError, got ${String(error)}`)
  return error
}

describe('every tool', () => {
  test('the nine stand in the order of the docs', () => {
    expect(tools.map(one => one.name)).toEqual([
      'recv',
      'send',
      'download',
      'history',
      'sessions',
      'login',
      'logout',
      'rename_session',
      'set_default',
    ])
  })

  test.each(tools.map(one => [one.name, one] as const))('%s documents itself whole', (_name, one) => {
    expect(one.description.length).toBeGreaterThan(80)
    const inputs = Object.entries(one.inputSchema.properties ?? {})
    for (const [, property] of inputs) expect(property.description ?? '').not.toBe('')
    expect(one.examples.length).toBeGreaterThan(0)
    const names = inputs.map(([name]) => name)
    for (const name of [...(one.cli.positionals ?? []), ...Object.keys(one.cli.short ?? {})])
      expect(names).toContain(name)
    const { names: called = {}, help = {}, defaults = {}, stdin, series } = one.cli
    const spelled = [...Object.keys(called), ...Object.keys(help), ...Object.keys(defaults)]
    const more = [...(stdin ? [stdin] : []), ...(series ? [series.into, ...Object.keys(series.entries)] : [])]
    for (const name of [...spelled, ...more]) expect(names).toContain(name)
    const flags = names.map(name => called[name] ?? name.replaceAll('_', '-'))
    expect(new Set(flags).size).toBe(flags.length)
    expect(new Set(Object.values(one.cli.short ?? {})).size).toBe(Object.keys(one.cli.short ?? {}).length)
  })

  test('names are checked by the one rule: results and schemas are plain JSON', () => {
    for (const one of tools) {
      expect(JSON.parse(JSON.stringify(one.inputSchema))).toEqual(one.inputSchema)
      expect(JSON.parse(JSON.stringify(one.outputSchema))).toEqual(one.outputSchema)
    }
  })
})

describe('what reaches the gateway', () => {
  test('recv has its defaults and passes everything on', async () => {
    expect(await handedDown('recv', { timeout: 0 })).toEqual({
      ...{ timeout: 0, limit: 100, recentLimit: 1000, consumer: 'default' },
    })
    expect(
      await handedDown('recv', { timeout: 0.1, limit: 1000, consumer: 'x.y-z_1', after: '41', session: 's' }),
    ).toEqual({ timeout: 0.1, limit: 1000, consumer: 'x.y-z_1', after: 41, session: 's' })
    // Named, it may be the one that all share.
    const named = { timeout: 0, consumer: 'default' }
    expect(await handedDown('recv', { ...named, ack: '0' })).toMatchObject({ ...named, limit: 100, ack: 0 })
  })

  test.each([
    [{ timeout: 301 }],
    [{ timeout: -1 }],
    [{ timeout: '5' }],
    [{ limit: 0 }],
    [{ limit: 1001 }],
    [{ limit: 1.5 }],
    [{ consumer: '' }],
    [{ consumer: 'a b' }],
    [{ consumer: '../x' }],
    [{ consumer: 'x'.repeat(65) }],
    [{ after: -1 }],
    [{ ack: -1, consumer: 'own' }],
    [{ ack: 1, after: 1, consumer: 'own' }],
    [{ ack: 0 }],
    [{ session: '' }],
  ])('recv refuses %j', async input => {
    expect((await failure('recv', input)).code).toBe('invalid_arguments')
  })

  test('send takes text alone, exactly as it is', async () => {
    const text = ' \n你好 👋🏽 \u0000 <b> '
    expect(await handedDown('send', { to: 'u@im.wechat', text })).toEqual({
      to: 'u@im.wechat',
      text,
      media: [],
    })
  })

  test('send hands down the key, and that it may wait', async () => {
    const idempotency_key = '订单 1 👋'.repeat(20)
    const input = { to: 'u@x', text: 'x', when_closed: 'queue', idempotency_key }
    expect(await handedDown('send', input)).toEqual({ ...input, media: [] })
    expect(await handedDown('send', { to: 'u@x', text: 'x', when_closed: 'fail' })).toEqual({
      ...{ to: 'u@x', text: 'x', media: [] },
    })
  })

  test('send maps the path arguments to media, before media, in their order', async () => {
    expect(
      await handedDown('send', {
        to: 'u@x',
        video_path: 'v.mp4',
        image_path: 'i.png',
        voice_path: 'a.mp3',
        file_path: 'f.pdf',
        file_name: '报告.pdf',
        media: [{ kind: 'image', url: 'https://example.org/x.png' }],
        session: 's',
      }),
    ).toEqual({
      to: 'u@x',
      media: [
        { kind: 'image', path: 'i.png' },
        { kind: 'voice', path: 'a.mp3' },
        { kind: 'file', path: 'f.pdf', file_name: '报告.pdf' },
        { kind: 'video', path: 'v.mp4' },
        { kind: 'image', url: 'https://example.org/x.png' },
      ],
      session: 's',
    })
    expect(await handedDown('send', { to: 'u@x', image_path: 'i.png', file_name: 'n.png' })).toEqual({
      to: 'u@x',
      media: [{ kind: 'image', path: 'i.png', file_name: 'n.png' }],
    })
  })

  test.each([
    ['no receiver', { text: 'x' }, 'to'],
    ['an empty receiver', { to: '', text: 'x' }, 'to'],
    ['a receiver with a space', { to: 'a b@c', text: 'x' }, 'to'],
    ['two at signs', { to: 'a@b@c', text: 'x' }, 'to'],
    ['nothing to send', { to: 'u@x' }, 'text'],
    ['empty text', { to: 'u@x', text: '' }, 'text'],
    ['media without source', { to: 'u@x', media: [{ kind: 'image' }] }, 'media[0]'],
    [
      'media with two sources',
      {
        to: 'u@x',
        media: [
          { kind: 'image', path: 'a' },
          { kind: 'image', path: 'a', url: 'b' },
        ],
      },
      'media[1]',
    ],
    ['an unknown kind', { to: 'u@x', media: [{ kind: 'sticker', path: 'a' }] }, 'media[0].kind'],
    ['a lonely file name', { to: 'u@x', text: 'x', file_name: 'a' }, 'file_name'],
    ['an empty path', { to: 'u@x', image_path: '' }, 'image_path'],
    ['another way to wait', { to: 'u@x', text: 'x', when_closed: 'later' }, 'when_closed'],
    ['an empty key', { to: 'u@x', text: 'x', idempotency_key: '' }, 'idempotency_key'],
    ['a key too long', { to: 'u@x', text: 'x', idempotency_key: 'k'.repeat(201) }, 'idempotency_key'],
  ])('send refuses %s', async (_what, input, field) => {
    const error = await failure('send', input)
    expect(error.code).toBe('invalid_arguments')
    expect(fieldsOf(error)).toEqual([field])
  })

  test('send refuses base64 beyond 16 MiB before decoding it, and takes 16 MiB', async () => {
    const media = (bytes: number) => ({
      to: 'u@x',
      media: [{ kind: 'file', data: Buffer.alloc(bytes).toString('base64') }],
    })
    expect((await failure('send', media(16 * 1024 * 1024 + 10))).code).toBe('payload_too_large')
    expect(await handedDown('send', media(16 * 1024 * 1024))).toBeDefined()
  })

  test('download takes an id as string or integer', async () => {
    expect(
      await handedDown('download', { message_id: '18446744073709551615', item: 2, save_dir: 'x' }),
    ).toEqual({ message_id: '18446744073709551615', item: 2, save_dir: 'x' })
    expect(await handedDown('download', { message_id: 7 })).toEqual({ message_id: '7', item: 0 })
    expect(fieldsOf(await failure('download', { message_id: 2 ** 60 }))).toEqual(['message_id'])
  })

  test('history skips at most as many as it counts', async () => {
    expect(await handedDown('history', { offset: 10_000 })).toMatchObject({ offset: 10_000 })
    expect(fieldsOf(await failure('history', { offset: 50_000 }))).toEqual(['offset'])
  })

  test('history refuses times in the wrong order, and both at once may be the same', async () => {
    const [earlier, later] = ['2026-01-01', '2026-01-02']
    expect(fieldsOf(await failure('history', { since: later, until: earlier }))).toEqual(['until'])
    expect(await handedDown('history', { since: later, until: later })).toBeDefined()
  })

  test('history has its defaults, and times become milliseconds', async () => {
    expect(await handedDown('history', {})).toEqual({ limit: 50, offset: 0 })
    expect(
      await handedDown('history', {
        user_id: 'u@x',
        bot_id: 'b',
        session: 'a',
        msg_type: 'FILE',
        direction: 'sent',
        since: '2026-01-01T08:00+08:00',
        until: 1767312000000,
        text_contains: '100%',
        limit: 200,
        offset: 3,
        before: 9,
      }),
    ).toEqual({
      user_id: 'u@x',
      bot_id: 'b',
      session: 'a',
      msg_type: 'FILE',
      direction: 'sent',
      since: 1767225600000,
      until: 1767312000000,
      text_contains: '100%',
      limit: 200,
      offset: 3,
      before: 9,
    })
  })

  test.each([
    [{ limit: 201 }],
    [{ limit: -1 }],
    [{ offset: -1 }],
    [{ offset: 10_001 }],
    [{ since: 'last week' }],
    [{ msg_type: 'text' }],
    [{ direction: 'in' }],
    [{ text_contains: '' }],
  ])('history refuses %j', async input => {
    expect((await failure('history', input)).code).toBe('invalid_arguments')
  })

  test('login has its defaults; a verify code may be digits', async () => {
    expect(await handedDown('login', {})).toEqual({ timeout: 30, force: false })
    expect(await handedDown('login', { session_name: '' })).toMatchObject({ session_name: '' })
    expect(
      await handedDown('login', { session_name: '客服', timeout: 0, force: true, verify_code: 417 }),
    ).toEqual({ session_name: '客服', timeout: 0, force: true, verify_code: '417' })
  })

  test('the session verbs pass names on', async () => {
    expect(await handedDown('logout', {})).toBe('')
    expect(await handedDown('logout', { session_name: 'a' })).toBe('a')
    expect(await handedDown('rename_session', { old_name: 'a', new_name: 'b' })).toEqual({
      old_name: 'a',
      new_name: 'b',
    })
    expect(await handedDown('set_default', { session_name: 'a' })).toBe('a')
    expect(fieldsOf(await failure('rename_session', { old_name: 'a' }))).toEqual(['new_name'])
    expect(fieldsOf(await failure('set_default', {}))).toEqual(['session_name'])
  })
})

describe('errors', () => {
  test('a bug becomes internal with an id; its text goes to the log alone', async () => {
    const lines: string[] = []
    const gateway = new MemoryGateway()
    gateway.failures.set('sessions', new TypeError('cannot read /home/me/.svc/x'))
    const error = await invoke(
      tool('sessions'),
      gateway,
      {},
      createDirectCall(),
      createLog('INFO', line => lines.push(line)),
    ).catch((thrown: SvcError) => thrown)
    if (!(error instanceof SvcError)) throw new Error('expected a SvcError')
    expect(error.code).toBe('internal')
    expect(error.message).not.toContain('/home/me')
    expect(String(error.details?.id)).toMatch(/^[0-9a-f-]{36}$/)
    expect(lines.join('')).toContain(String(error.details?.id))
    expect(lines.join('')).toContain('cannot read')
  })
})
