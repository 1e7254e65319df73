/** Files that wait with their message in the outbox, in a place that outlives the process that queued them. */
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { streamOf } from '../ilink/progress.ts'
import { badArgument } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { sweep, syncDir } from '../platform/files.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { StagedFile } from '../send/media-files.ts'
import type { KeptFile } from '../storage/outbox.ts'
import { keepStream, mediaFolder, staleMs } from './disk.ts'
import type { MediaPorts } from './ports.ts'
import { openRegular, stagedFile } from './staged-file.ts'

type KeptFilePorts = Pick<MediaPorts, 'store' | 'folders' | 'space'>

const keptName = /^[0-9a-f-]{36}\.queued$/

export class KeptFiles {
  readonly #ports: KeptFilePorts
  readonly #runtime: Runtime

  constructor(ports: KeptFilePorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Copies a staged file to where it stays until it is sent.
   *
   * @throws SvcError `store_unavailable` (disk); the signal's reason
   */
  async keep(file: StagedFile, signal: AbortSignal): Promise<KeptFile> {
    const folder = await mediaFolder(this.#ports.folders.mediaRoot, 'outbox')
    const name = `${randomUUID()}.queued`
    const { file_name, size, md5 } = file
    const { digests } = await keepStream(
      streamOf(file.read(), () => {}),
      join(folder, name),
      {
        ...{ digests: ['md5'], signal, durable: true, space: this.#ports.space, size },
      },
    )
    if (digests.md5 !== md5) {
      await this.discard([{ name }])
      throw badArgument('media', 'the file changed while it was read')
    }
    await syncDir(folder)
    return { name, file_name, size, md5 }
  }

  /** A kept file, to be sent. @throws SvcError `invalid_arguments` when it is gone or another one */
  async open({ name, file_name, size, md5 }: KeptFile, kind: MediaKind): Promise<StagedFile> {
    const opened = await openRegular(join(await mediaFolder(this.#ports.folders.mediaRoot, 'outbox'), name), {
      maxBytes: Number.MAX_SAFE_INTEGER,
    })
    if (opened.size === size) return stagedFile(opened, { kind, file_name, md5, ours: true })
    await opened.handle.close()
    throw badArgument('media', 'the file is not what was queued')
  }

  /** Removes kept files. */
  async discard(files: readonly Pick<KeptFile, 'name'>[]): Promise<void> {
    const folder = join(this.#ports.folders.mediaRoot, 'outbox')
    for (const { name } of files) {
      await rm(join(folder, name), { force: true }).catch(error =>
        this.#runtime.log.warn('file of a sent message not removed', { name, error }),
      )
    }
  }

  /** Removes files that no waiting message names: what a crash left between file and row, or between row and removal. */
  async sweep(): Promise<void> {
    const { clock } = this.#runtime
    const { folders, store } = this.#ports
    const needed = new Set(await store.outbox.files())
    const kept = { test: (name: string) => keptName.test(name) && !needed.has(name) }
    await sweep(join(folders.mediaRoot, 'outbox'), kept, clock.now() - staleMs)
  }
}
