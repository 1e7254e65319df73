/**
 * Sign-ins to the panel: `.signed_out.json` lists the sign-ins that were ended; login links are known to this
 * process only.
 */
import { setAside, writeDurably } from '../../../platform/files.ts'
import { JsonFiles } from '../../../platform/json-file.ts'
import type { SignInStore } from '../../state.ts'
import { translateErrors } from './token-file.ts'

/**
 * If there are more, those that would have expired first are forgotten. Only a signed-in user can add one.
 */
const maxEnded = 1000

export class SignInFile implements SignInStore {
  readonly #path: string
  readonly #files = new JsonFiles(
    fields => new Map(Object.entries(fields).map(([name, ms]) => [name, Number(ms)])),
  )
  /** Sign-ins that this process ended. */
  readonly #own = new Map<string, number>()
  readonly #links = new Map<string, number>()

  constructor(path: string) {
    this.#path = path
  }

  async addLink(code: string, until: number): Promise<void> {
    this.#links.set(code, until)
  }

  async takeLink(code: string, now: number): Promise<boolean> {
    const isValid = (this.#links.get(code) ?? now) > now
    this.#links.delete(code)
    for (const [other, until] of this.#links) if (until <= now) this.#links.delete(other)
    return isValid
  }

  filterEnded(names: readonly string[]): Promise<ReadonlySet<string>> {
    return translateErrors(async () => {
      const kept = names.some(name => !this.#own.has(name)) ? this.#readKept() : this.#own
      return new Set(names.filter(name => this.#own.has(name) || kept.has(name)))
    })
  }

  end(names: readonly string[], until: number, now: number): Promise<void> {
    return translateErrors(async () => {
      for (const name of names) this.#own.set(name, until)
      const all = [...new Map([...this.#readKept(), ...this.#own])].filter(([, ms]) => ms > now)
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
