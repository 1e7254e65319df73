/** Pictures and files of one turn of an agent that speaks the Agent Client Protocol. */
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { ContentBlock } from '@agentclientprotocol/sdk'
import { openFileBelow } from '../../platform/below.ts'
import { randomBytes } from '../../platform/lazy-crypto.ts'
import { writeToOutbox } from '../answer-files.ts'

const maxFiles = 10

/** Keeps what an agent sends, in its folder. */
export class AnswerFiles {
  readonly #folder: string
  readonly #files: Promise<string | undefined>[] = []
  /** Digests of pictures and files in updates of tools, which say the same again. */
  readonly #seen = new Set<string>()
  /** Tools that only look at something: their pictures are for the agent. */
  readonly #reading = new Set<unknown>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Takes pictures and bytes that a tool made. */
  takeOfTool({ content, kind, toolCallId }: Record<string, unknown>): void {
    if (kind === 'read') this.#reading.add(toolCallId)
    if (!Array.isArray(content) || this.#reading.has(toolCallId)) return
    for (const block of content.map((one): Partial<ContentBlock> => Object(Object(one).content))) {
      const bytes = block.type === 'resource' ? Object(block.resource).blob : Object(block).data
      if (typeof bytes !== 'string') continue
      const digest = createHash('sha256').update(bytes).digest('base64')
      if (!this.#seen.has(digest)) this.take(block)
      this.#seen.add(digest)
    }
  }

  /** Takes a picture or a file that the agent sends or names. */
  take(block: Partial<ContentBlock>): void {
    const isOne = this.#files.length < maxFiles
    this.#files.push(isOne ? this.#keep(block).catch(() => undefined) : Promise.resolve(undefined))
  }

  /** Drops what came until now: it belongs to an earlier answer. */
  clear(): void {
    this.#files.length = 0
    this.#seen.clear()
  }

  /** Returns the paths of all files, and how many could not be kept. */
  async finish(): Promise<{ files: string[]; leftOut: number }> {
    const all = await Promise.all(this.#files)
    const files = all.filter(path => path !== undefined)
    return { files, leftOut: all.length - files.length }
  }

  /** Returns the path of a file that the agent sends or names, if it is in the agent's folder. */
  async #keep(block: Partial<ContentBlock>): Promise<string | undefined> {
    const { blob, text, uri } = Object(block.type === 'resource' ? block.resource : block)
    if (block.type === 'resource' && (typeof blob === 'string' || typeof text === 'string')) {
      const bytes = typeof blob === 'string' ? Buffer.from(blob, 'base64') : text
      return (await writeToOutbox(this.#folder, fileNameOf(String(uri)), bytes)).path
    }
    if (typeof uri === 'string' && uri.startsWith('file:') && !('data' in block && block.data)) {
      const { handle, path } = await openFileBelow(this.#folder, fileURLToPath(uri))
      await handle.close()
      return path
    }
    if ((block.type !== 'image' && block.type !== 'audio') || !block.data) return undefined
    const [, ending = 'bin'] = /^\w+\/([a-z0-9]{1,8})$/.exec(block.mimeType ?? '') ?? []
    const name = `${randomBytes(8).toString('hex')}.${ending}`
    return (await writeToOutbox(this.#folder, name, Buffer.from(block.data, 'base64'))).path
  }
}

/** Returns the address on the web that a block names in place of bytes. */
export function addressOf(block: Partial<ContentBlock>): string | undefined {
  const { blob, text, uri } = Object(block.type === 'resource' ? block.resource : block)
  const hasBytes = [blob, text, Object(block).data].some(one => typeof one === 'string' && one !== '')
  return !hasBytes && typeof uri === 'string' && /^https?:\/\/[^\s()]+$/i.test(uri) ? uri : undefined
}

/** Returns a name with an extension for a file of a resource. */
function fileNameOf(uri: string): string {
  const name = (/[^/\\]*$/.exec(uri.replace(/[?#].*$/, ''))?.[0] ?? '')
    .replace(/[^\p{L}\p{N}._-]+/gu, '_')
    .slice(-80)
  return /^.+\.\w+$/.test(name) ? name : `${name || 'file'}.bin`
}
