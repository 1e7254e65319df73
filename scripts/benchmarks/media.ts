import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  botId,
  createTemporaryFolder,
  memoryOf,
  post,
  resetPeak,
  startBenchService,
  startChild,
  startUpstream,
  waitUntil,
  writeSession,
} from './process.ts'
import { alternate, type Benchmark, createSpeedRow, formatSpread, type Row, toMib } from './report.ts'

const session = 'shop'
const user = 'o9cq80benchZkQ@im.wechat'
/** The key with which the canned CDN encrypts, in hex as messages spell it. */
const aesKey = Buffer.from('000102030405060708090a0b0c0d0e0f').toString('base64')

/** Makes a stream of `size` bytes (whole MiB) from memory, one MiB at a time. */
function createSource(size: number): ReadableStream<Uint8Array> {
  const block = new Uint8Array(1024 * 1024).fill(7)
  let left = size / block.length
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) =>
    left-- > 0 ? controller.enqueue(block) : controller.close()
  return new ReadableStream({ pull }, { highWaterMark: 0 })
}

async function readToEnd(response: Response, size: number): Promise<void> {
  if (!response.ok) throw new Error(await response.text())
  let got = 0
  for await (const chunk of response.body ?? []) got += chunk.byteLength
  if (got !== size) throw new Error(`${got} of ${size} bytes`)
}

export const media: Benchmark = {
  name: 'media',
  compares:
    'MB/s of one file, compared with a bare server that streams the same bytes. POST /media: request body to file. Send by upload_id: file to a PUT at the CDN. The download tool: fetch to file with fsync. GET /media: fetch body to response, each chunk passing through the program. svc also encrypts or decrypts, and computes the digests that WeChat and the API need. Memory: the highest resident size during a transfer, minus that before the first one.',
  async run({ quick, rounds }) {
    const size = (quick ? 64 : 1024) * 1024 * 1024
    using folder = createTemporaryFolder()
    using bareFolder = createTemporaryFolder()
    await using upstream = await startUpstream()
    const cdn = `${upstream.ready}/c2c`
    writeSession(folder.path, session, upstream.ready)
    await using service = await startBenchService(folder.path, upstream.ready)
    await using bare = await startChild('bare-media.ts', [bareFolder.path, cdn])

    let said = 0
    /**
     * Lets the user write: opens a window and a quota, with a file of this size to download.
     *
     * @returns its message_id
     */
    const say = async (bytes: number): Promise<string> => {
      await post(`${upstream.ready}/control/parked`, { count: 1 })
      const id = String(8_000_000_000_000_000_000n + BigInt(++said) * 4096n)
      const media = { encrypt_query_param: String(bytes), aes_key: aesKey, encrypt_type: 1 }
      const item = { type: 4, file_item: { media, file_name: 'big.bin', len: String(bytes) } }
      const rest = JSON.stringify({
        from_user_id: user,
        to_user_id: botId(session),
        create_time_ms: Date.now(),
        message_type: 1,
        context_token: 'token',
        item_list: [item],
      })
      const message = `{"message_id":${id},${rest.slice(1)}`
      await post(`${upstream.ready}/control/say`, { run: 1, n: said, message })
      await waitUntil('the message is stored', async () => {
        const page = await post(`${service.url}/tools/default/history`, { limit: 1 })
        return page.messages[0]?.message_id === id ? true : undefined
      })
      // The context token is written after the message; the next poll shows that everything is written.
      await post(`${upstream.ready}/control/parked`, { count: 1 })
      return id
    }

    const timed = async (bytes: number, work: () => Promise<void>): Promise<number> => {
      const from = performance.now()
      await work()
      return bytes / 1e6 / ((performance.now() - from) / 1000)
    }
    const put = (url: string, bytes: number) =>
      fetch(url, { method: 'POST', body: createSource(bytes), headers: { 'content-length': String(bytes) } })
    const checked = async (response: Response): Promise<Response> => {
      if (!response.ok) throw new Error(await response.text())
      return response
    }

    const growth: number[] = []
    let restBytes = 0
    /** Measures one transfer of svc, and its memory. */
    const watched = async (bytes: number, work: () => Promise<void>): Promise<number> => {
      resetPeak(service.pid)
      const speed = await timed(bytes, work)
      if (restBytes > 0) growth.push(memoryOf(service.pid).peak - restBytes)
      return speed
    }
    let uploadId = ''
    const ours = {
      accept: (bytes: number) =>
        watched(bytes, async () => {
          const response = await checked(await put(`${service.url}/media?file_name=big.bin&kind=file`, bytes))
          uploadId = ((await response.json()) as { upload_id: string }).upload_id
        }),
      async send(bytes: number) {
        await say(bytes)
        const speed = await watched(bytes, async () => {
          const input = { to: user, media: [{ kind: 'file', upload_id: uploadId }] }
          const sent = await post(`${service.url}/tools/default/send`, input)
          if (!sent.success) throw new Error(JSON.stringify(sent))
        })
        await rm(join(folder.path, 'media/uploads', uploadId))
        return speed
      },
      async download(bytes: number) {
        const message_id = await say(bytes)
        let path = ''
        const speed = await watched(bytes, async () => {
          path = (await post(`${service.url}/tools/default/download`, { message_id })).path
        })
        await rm(path)
        return speed
      },
      async get(bytes: number) {
        const message_id = await say(bytes)
        return watched(bytes, async () =>
          readToEnd(await fetch(`${service.url}/media/${message_id}/0`), bytes),
        )
      },
    }
    const theirs = {
      accept: (bytes: number) =>
        timed(bytes, async () => void (await checked(await put(`${bare.ready}/accept`, bytes)))),
      send: (bytes: number) =>
        timed(bytes, async () => void (await checked(await fetch(`${bare.ready}/send`)))),
      download: (bytes: number) =>
        timed(bytes, async () => void (await checked(await fetch(`${bare.ready}/download?size=${bytes}`)))),
      get: (bytes: number) =>
        timed(bytes, async () => readToEnd(await fetch(`${bare.ready}/relay?size=${bytes}`), bytes)),
    }
    await say(1024 * 1024)
    restBytes = memoryOf(service.pid).rss
    const transfers = [
      ['accept', 'up: POST /media'],
      ['send', 'up: send an upload'],
      ['download', 'down: download'],
      ['get', 'down: GET /media'],
    ] as const
    for (const [transfer] of transfers) {
      await theirs[transfer](16 * 1024 * 1024)
      await ours[transfer](16 * 1024 * 1024)
    }
    const found = new Map<string, { ours: number[]; baseline: number[] }>()
    for (let round = 0; round < rounds; round++) {
      for (const [way] of transfers) {
        const pair = await alternate(
          1,
          () => theirs[way](size),
          () => ours[way](size),
        )
        const kept = found.get(way) ?? { ours: [], baseline: [] }
        kept.ours.push(...pair.ours)
        kept.baseline.push(...pair.baseline)
        found.set(way, kept)
      }
    }
    const rows = transfers.map(([way, what]) =>
      createSpeedRow(found.get(way)!, {
        name: 'media',
        what: `${what}, ${toMib(size)} MiB`,
        unit: 'MB/s',
        goal: 0.8,
      }),
    )
    const most = Math.max(...growth)
    const memory: Row = {
      name: 'media',
      what: 'memory during a transfer',
      ours: `${toMib(restBytes + most).toFixed(0)} MiB`,
      baseline: `${toMib(restBytes).toFixed(0)} MiB at rest`,
      result: `+ ${toMib(most).toFixed(0)} MiB`,
      goal: '≤ + 64 MiB',
      met: toMib(most) <= 64,
      spread: formatSpread(growth.map(toMib), 0),
    }
    return [...rows, memory]
  },
}
