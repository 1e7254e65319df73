import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdir, open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folderOfTest } from '../support/folder.ts'
import { logIn, startService } from '../support/service.ts'

const sizeBytes = 1024 ** 3
const growthLimitBytes = 64 * 1024 ** 2
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

// Resident memory is read where Linux tells it.
const memoryTold = process.platform === 'linux'

describe('a file of 1 GiB', () => {
  test.skipIf(!memoryTold)(
    'goes up and comes down with equal bytes, in bounded memory',
    async () => {
      const dir = folderOfTest()
      // Next door, so that the simulated WeChat's memory is not counted as ours.
      const sandbox = Bun.spawn(
        [process.execPath, main, 'sandbox', '--no-banner', '--sandbox-port', '0', '-d', dir],
        { stdout: 'pipe', stderr: 'ignore' },
      )
      try {
        const phoneUrl = await firstUrl(sandbox.stdout)
        await using service = await startService({ dir })
        await logIn(service)
        await service.phone('say', { text: 'send me everything' })
        const [hi] = (await service.call('recv', { timeout: 50 })).body
        const path = join(dir, 'media', 'everything.bin')
        await mkdir(join(dir, 'media'), { recursive: true })
        const sha256 = await makeFile(path)
        // What the first transfer loads is not growth by size.
        await writeFile(join(dir, 'media', 'little.bin'), 'x'.repeat(100_000))
        await service.call('send', { to: hi.from_user, file_path: join(dir, 'media', 'little.bin') })

        const before = await resident(service.pid)
        await resetPeak(service.pid)
        const sent = await service.call('send', { to: hi.from_user, file_path: path })
        expect(sent.body).toMatchObject({ success: true, parts: [{ kind: 'file', status: 'accepted' }] })
        expect((await peak(service.pid)) - before).toBeLessThan(growthLimitBytes)

        const seen = await (await fetch(`${phoneUrl}/phone/messages?from=bot`)).json()
        const shown = (seen as { messages: { items: { media_id: string }[] }[] }).messages.at(-1)!.items[0]!
        expect(await sha256Of((await fetch(`${phoneUrl}/phone/media/${shown.media_id}`)).body!)).toBe(sha256)

        const said = await fetch(`${phoneUrl}/phone/media?kind=file&name=back.bin`, {
          method: 'POST',
          body: Bun.file(path),
        })
        expect(said.status).toBe(200)
        const [back] = (await service.call('recv', { timeout: 50 })).body
        await resetPeak(service.pid)
        const saved = await service.call('download', { message_id: back.message_id, digest: 'sha256' })
        expect(saved.body).toMatchObject({ size: sizeBytes, sha256, file_name: 'back.bin' })
        expect(await sha256Of(Bun.file(saved.body.path).stream())).toBe(sha256)
        const streamed = await fetch(`${service.url}/media/${back.message_id}/0`)
        expect(await sha256Of(streamed.body!)).toBe(sha256)
        expect((await peak(service.pid)) - before).toBeLessThan(growthLimitBytes)
      } finally {
        sandbox.kill('SIGKILL')
        await sandbox.exited
      }
    },
    240_000,
  )
})

async function firstUrl(stdout: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stdout) {
    text += decoder.decode(chunk, { stream: true })
    const url = /phone on (\S+?)\/phone/.exec(text)?.[1]
    if (url) return url
  }
  throw new Error(`the sandbox did not start: ${text}`)
}

/** Bytes that differ from block to block, so that a block lost or doubled shows. @returns sha256 */
async function makeFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  const file = await open(path, 'w')
  const block = Buffer.alloc(1024 ** 2)
  for (let i = 0; i < block.length; i += 4) block.writeUInt32LE((i * 2654435761) >>> 0, i)
  for (let n = 0; n < sizeBytes / block.length; n++) {
    block.writeUInt32LE(n, 0)
    hash.update(block)
    await file.write(block)
  }
  await file.close()
  return hash.digest('hex')
}

async function sha256Of(stream: ReadableStream<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of stream) hash.update(chunk)
  return hash.digest('hex')
}

const field = async (pid: number, name: string) =>
  Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
const resident = (pid: number) => field(pid, 'VmRSS')
const peak = (pid: number) => field(pid, 'VmHWM')
/** From here on the peak counts anew (proc(5), clear_refs). */
const resetPeak = (pid: number) => writeFile(`/proc/${pid}/clear_refs`, '5')
