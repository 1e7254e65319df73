/** What svc offers to its users: nothing of it goes or changes without a word in the changelog. */
import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import type { Json } from '../support/service.ts'
import { breaksBetween, type Surface } from './breaks.ts'
import { findUnnamedBreaks, readSurface, surfaceFile } from './surface.ts'

const kept: Surface = JSON.parse(await readFile(surfaceFile, 'utf8'))

test('nothing that callers rely on broke without a word, and the file is made again after each addition', async () => {
  const now = await readSurface()
  expect(await findUnnamedBreaks(now)).toEqual([])
  // Otherwise run: bun test/upgrade/surface.ts
  expect(now).toEqual(kept)
}, 120_000)

type Change = (surface: Json) => void
const schema = 'SendResult'

test.each<[what: string, breaks: boolean, change: Change]>([
  ['a route is gone', true, s => delete s.rest.paths['/outbox/{id}'].get],
  [
    'a route more',
    false,
    s => {
      s.rest.paths['/new'] = { get: { operationId: 'new' } }
    },
  ],
  [
    'an operation has another id',
    true,
    s => {
      s.rest.paths['/outbox'].get.operationId = 'waiting'
    },
  ],
  ['a parameter is gone', true, s => s.rest.paths['/outbox/{id}'].get.parameters.pop()],
  [
    'a parameter is needed',
    true,
    s => s.rest.paths['/outbox'].get.parameters.push({ name: 'x', in: 'query', required: true, schema: {} }),
  ],
  [
    'a parameter more',
    false,
    s => s.rest.paths['/outbox'].get.parameters.push({ name: 'x', in: 'query', schema: {} }),
  ],
  [
    'an answer has another content type',
    true,
    s => {
      s.rest.paths['/outbox'].get.responses['200'].content = { 'text/plain': {} }
    },
  ],
  ['a field of an answer is gone', true, s => delete s.rest.schemas[schema].properties.parts],
  ['a field of an answer may be missing', true, s => s.rest.schemas[schema].required.shift()],
  [
    'a field of an answer has another type',
    true,
    s => {
      s.rest.schemas[schema].properties.message_id = { type: 'integer' }
    },
  ],
  [
    'a field of an answer more',
    false,
    s => {
      s.rest.schemas[schema].properties.more = { type: 'string' }
    },
  ],
  ['an answer has a state more', false, s => s.rest.schemas[schema].properties.status.enum.push('later')],
  [
    'a tool takes fewer characters',
    true,
    s => {
      s.tools.send.inputSchema.properties.text.maxLength = 10
    },
  ],
  ['a tool needs a field', true, s => (s.tools.recv.inputSchema.required = ['session_name'])],
  ['a tool takes a field less', true, s => delete s.tools.recv.inputSchema.properties.timeout],
  [
    'a tool has another default',
    true,
    s => {
      s.tools.recv.inputSchema.properties.timeout.default = 1
    },
  ],
  ['a tool takes a choice less', true, s => s.tools.history.inputSchema.properties.direction.enum.pop()],
  ['a tool is gone', true, s => delete s.tools.logout],
  ['an event is gone', true, s => delete s.events['message.received']],
  ['a command is gone', true, s => delete s.commands['key add']],
  ['an option is gone', true, s => delete s.commands['key add'].options['--expires']],
  [
    'an option has another letter',
    true,
    s => {
      s.commands.send.options['--text'].flags = '-x, --text <text>'
    },
  ],
  [
    'an option more',
    false,
    s => {
      s.commands['key add'].options['--more'] = { flags: '--more', mandatory: false }
    },
  ],
  [
    'an argument more is needed',
    true,
    s => s.commands.sessions.arguments.push({ required: true, variadic: false }),
  ],
  ['a variable is gone', true, s => delete s.settings.SVC_HOST],
  [
    'a setting has another default',
    true,
    s => {
      s.settings.SVC_PORT.usual = '8080'
    },
  ],
  [
    'a code has another status',
    true,
    s => {
      s.errors.no_media = 400
    },
  ],
  [
    'a code more',
    false,
    s => {
      s.errors.new_code = 400
    },
  ],
  ['a label is gone', true, s => s.metrics.svc_messages_total.pop()],
  ['a metric is gone', true, s => delete s.metrics.svc_nodes],
  ['a type is gone', true, s => s.types.index.pop()],
  ['a type more', false, s => s.types.index.push('type More')],
])('%s: it breaks callers, %p', (_what, breaks, change) => {
  const changed = structuredClone<Json>(kept)
  change(changed)
  expect(changed).not.toEqual(kept)
  expect(breaksBetween(kept, changed).length > 0).toBe(breaks)
})
