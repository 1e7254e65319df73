/** An upstream that takes a request and never answers it; its other troubles stand in `upstream.test.ts`. */
import { expect, test } from 'bun:test'
import { failure } from '../support/failure.ts'
import { withTalk } from '../support/talk.ts'

const file = { kind: 'file' as const, data: Buffer.from('12345').toString('base64'), file_name: 'a.txt' }

test('an upstream that hangs: after 15 s a message is unknown, an upload failed with nothing sent, and the next send goes', async () => {
  const message = async () => {
    await using t = await withTalk()
    await t.sandbox.fail('sendmessage', 'hang')
    const result = await t.send({ text: 'lost?' })
    expect(result).toMatchObject({ status: 'unknown', parts: [{ error: { code: 'upstream_timeout' } }] })
    expect(await t.send({ text: 'next' })).toMatchObject({ status: 'accepted' })
    expect(t.requests('sendmessage')).toBe(2)
  }
  const upload = async () => {
    await using t = await withTalk()
    await t.sandbox.fail('getuploadurl', 'hang')
    expect(await failure(t.send({ media: [file] }))).toMatchObject({ code: 'upstream_timeout' })
    expect(t.requests('sendmessage')).toBe(0)
    expect((await t.gateway.history.page({ direction: 'sent', limit: 50, offset: 0 })).messages).toEqual([])
    expect(await t.send({ media: [file] })).toMatchObject({ status: 'accepted' })
  }
  await Promise.all([message(), upload()])
})
