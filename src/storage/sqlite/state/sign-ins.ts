/**
 * Sign-ins to the panel: `.signed_out.json` lists the sign-ins that were ended; `.sign_in_link` has the link that was
 * shared last, and other links are known to this process only.
 */
import { unlink } from 'node:fs/promises'
import { readText, replaceFile, setAside, writeDurably } from '../../../platform/files.ts'
import { JsonFiles } from '../../../platform/json-file.ts'
import { nodeCrypto } from '../../../platform/lazy-crypto.ts'
import type { SignInStore } from '../../state.ts'
import { translateErrors } from './token-file.ts'

/**
 * If there are more, those that would have expired first are forgotten. Only a signed-in user can add one.
 */
const maxEnded = 1000

const hashOf = (code: string) => nodeCrypto().createHash('sha256').update(code).digest('hex')

export class SignInFile implements SignInStore {
  readonly #path: string
  readonly #linkPath: string
  readonly #files = new JsonFiles(
    fields => new Map(Object.entries(fields).map(([name, ms]) => [name, Number(ms)])),
  )
  /** Sign-ins that this process ended. */
  readonly #own = new Map<string, number>()
  readonly #links = new Map<string, number>()

  constructor(path: string, linkPath: string) {
    this.#path = path
    this.#linkPath = linkPath
  }

  async addLink(code: string, until: number, isShared = false): Promise<void> {
    if (isShared) await translateErrors(() => replaceFile(this.#linkPath, `${hashOf(code)} ${until}`))
    else this.#links.set(code, until)
  }

  async takeLink(code: string, now: number): Promise<boolean> {
    if (!this.#links.has(code)) return this.#takeShared(code, now)
    const isValid = (this.#links.get(code) ?? now) > now
    this.#links.delete(code)
    for (const [other, until] of this.#links) if (until <= now) this.#links.delete(other)
    return isValid
  }

  async #takeShared(code: string, now: number): Promise<boolean> {
    const [hash, until] = ((await readText(this.#linkPath).catch(() => '')) ?? '').split(' ')
    // If several callers try, only the one that removes the file has taken the link.
    const take = () =>
      unlink(this.#linkPath).then(
        () => true,
        () => false,
      )
    return hash === hashOf(code) && Number(until) > now && (await take())
  }

  filterEnded(names: readonly string[]): Promise<ReadonlySet<string>> {
    return translateErrors(async () => {
      const kept = names.some(name => !this.#own.has(name)) ? this.#readKept() : this.#own
      return new Set(names.filter(name => this.#own.has(name) || kept.has(name)))
    })
  }

  end(names: readonly string[], until: number): Promise<void> {
    return translateErrors(async () => {
      for (const name of names) this.#own.set(name, until)
      // None is forgotten because of its time: a clock that is ahead may come back.
      const all = [...new Map([...this.#readKept(), ...this.#own])]
      const newest = all.sort(([, a], [, b]) => b - a).slice(0, maxEnded)
      this.#own.clear()
      for (const [name, ms] of newest) this.#own.set(name, ms)
      if (this.#files.read(this.#path).kind === 'damaged') await setAside(this.#path)
      await writeDurably(this.#path, `${JSON.stringify(Object.fromEntries(newest))}\n`)
    })
  }

  #readKept(): ReadonlyMap<string, number> {
    const found = this.#files.read(this.#path)
    return found.kind === 'read' ? found.value : new Map()
  }
}
