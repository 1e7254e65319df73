import { describe, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Json, logIn, startService } from '../support/service.ts'

const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const modules = fileURLToPath(new URL('../../node_modules', import.meta.url))
const deno = [...new Bun.Glob('@deno/*/deno').scanSync(modules)].map(path => join(modules, path))[0]

const runtimes: Record<string, string[]> = {
  Bun: [process.execPath, main],
  // It has no binary for every machine that Bun runs on.
  ...(deno && { Deno: [deno, 'run', '-A', '--node-modules-dir=manual', main] }),
}

describe('the main job', () => {
  test.each(Object.keys(runtimes))(
    'on %s: a whole conversation, a kill -9, and everything is still there',
    async name => {
      const dir = await mkdtemp(join(tmpdir(), 'svc-conversation-'))
      const command = runtimes[name]!
      try {
        const before = await withService(dir, command, async service => {
          const confirmed = await logIn(service, 'work')
          expect(confirmed.bot_id).toMatch(/@im\.bot$/)

          await service.phone('say', { text: '你好,机器人' })
          const { body: received } = await service.call('recv', { timeout: 20 })
          expect(received).toHaveLength(1)
          const [hello] = received as Json[]
          expect(hello).toMatchObject({
            session: 'work',
            direction: 'received',
            msg_type: 'TEXT',
            text: '你好,机器人',
          })

          const answer = await service.call('send', { to: hello.from_user, text: 'Hello 👋' })
          expect(answer.body).toMatchObject({
            success: true,
            status: 'accepted',
            session: 'work',
            remaining: 9,
          })
          const shown = await service.call('send', {
            to: hello.from_user,
            media: [{ kind: 'image', data: picture.toString('base64'), file_name: 'dot.png' }],
          })
          expect(shown.body).toMatchObject({ success: true, parts: [{ kind: 'image', status: 'accepted' }] })
          const seen: Json = await (await fetch(`${service.phoneUrl}/phone/messages?from=bot`)).json()
          const items = seen.messages.flatMap((message: Json) => message.items)
          expect(items).toMatchObject([{ kind: 'text', text: 'Hello 👋' }, { kind: 'image' }])
          const seenPicture = await fetch(`${service.phoneUrl}/phone/media/${items[1].media_id}`)
          expect(Buffer.from(await seenPicture.arrayBuffer()).equals(picture)).toBe(true)

          const sentFile = await fetch(
            `${service.phoneUrl}/phone/media?kind=file&name=${encodeURIComponent('报告.txt')}`,
            {
              method: 'POST',
              body: 'quarterly numbers',
            },
          )
          expect(sentFile.status).toBe(200)
          const { body: files } = await service.call('recv', { timeout: 20 })
          expect(files).toHaveLength(1)
          const saved = await service.call('download', { message_id: files[0].message_id })
          expect(saved.body).toMatchObject({ file_name: '报告.txt', size: 17, content_type: 'text/plain' })
          expect(await readFile(saved.body.path, 'utf8')).toBe('quarterly numbers')

          const thanks = await service.call('send', { to: hello.from_user, text: 'got it' })
          expect(thanks.body).toMatchObject({ success: true, remaining: 9 })

          const found = await service.call('history', { text_contains: '机器' })
          expect(found.body).toMatchObject({ total: 1, messages: [{ message_id: hello.message_id }] })
          const all = await service.call('history', {})
          expect(all.body.total).toBe(5)
          return { user: hello.from_user, history: all.body.messages }
        })

        await withService(dir, command, async service => {
          const { body: sessions } = await service.call('sessions')
          expect(sessions).toMatchObject([
            { name: 'work', connected: true, status: 'connected', is_default: true, user_count: 1 },
          ])
          expect((await service.call('history', {})).body.messages).toEqual(before.history)
          // Everything was delivered before: nothing comes again.
          expect((await service.call('recv', { timeout: 0 })).body).toEqual([])
          // The context token and the quota survived, and so did the sandbox's world.
          const again = await service.call('send', { to: before.user, text: 'still here' })
          expect(again.body).toMatchObject({ success: true, remaining: 8 })
          await service.phone('say', { text: 'good' })
          expect((await service.call('recv', { timeout: 20 })).body).toMatchObject([{ text: 'good' }])
        })
      } finally {
        await rm(dir, { recursive: true, force: true })
      }
    },
    60_000,
  )
})

async function withService<T>(
  dir: string,
  command: string[],
  work: (service: Awaited<ReturnType<typeof startService>>) => Promise<T>,
) {
  const service = await startService({ dir, command })
  try {
    return await work(service)
  } catch (error) {
    throw new Error(
      `${error instanceof Error ? error.message : error}\nlog:\n${service.log().slice(-3000)}`,
      { cause: error },
    )
  } finally {
    await service.kill('SIGKILL')
  }
}
