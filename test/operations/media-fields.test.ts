import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import { verbs } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'

test('a file that cannot be sent is named by the field that it was given in', async () => {
  await using t = await withGateway()
  await t.sandbox.say('hi')
  const [hi] = await t.receive(1)
  const call = { by: owner, signal: new AbortController().signal, local: false, onDelivered: () => {} }
  await writeFile(join(t.mediaRoot, 'text.png'), 'no picture')
  for (const [field, given] of [
    ['image_path', { image_path: 'text.png' }],
    ['image_path', { image_path: 'nope.png' }],
    ['media[0].path', { media: [{ kind: 'image', path: 'nope.png' }] }],
  ] as const) {
    const error = await failure(
      invoke(verbs.send, t.gateway, { to: hi!.from_user, ...given }, call, silentLog),
    )
    expect(error).toMatchObject({ code: 'invalid_arguments', details: { errors: [{ field }] } })
  }
})
