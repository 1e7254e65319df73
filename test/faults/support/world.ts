/** What users write during a storm, and what is known of it. */
import type { Fleet } from './fleet.ts'
import type { Chance } from './random.ts'

export interface Account {
  session: string
  bot: string
  user: string
}

/** A message that a user wrote, as upstream has it. */
export interface Injected {
  text: string
  bot: string
  /** Upstream's own order, over all bots. */
  seq: number
  messageId: string
  /** Unix ms. */
  at: number
}

/** Logs `count` sessions in, each with a user of its own. */
export async function logInSessions(fleet: Fleet, count: number): Promise<Account[]> {
  const accounts: Account[] = []
  for (let n = 0; n < count; n++) {
    const session = `s${n}`
    const service = fleet.doors[n % fleet.size]!()!
    const { id: user } = await fleet.phone.post('users', { name: `User ${n}` })
    const first = await service.call('login', { session_name: session })
    await fleet.phone.post('scan', { confirm: true, qrcode: first.body.qr_url, user })
    let bot: string | undefined
    for (let tries = 0; bot === undefined; tries++) {
      if (tries === 20) throw new Error(`login of ${session} was never confirmed`)
      const { body } = await service.call('login', { session_name: session, timeout: 5 })
      if (body.status === 'confirmed') bot = body.bot_id as string
    }
    accounts.push({ session, bot, user })
  }
  return accounts
}

/** Users that write: now a word, now many at once. */
export class Writers {
  readonly injected: Injected[] = []
  readonly #fleet: Fleet
  readonly #accounts: readonly Account[]
  readonly #chance: Chance
  #burst = Promise.withResolvers<void>()

  constructor(fleet: Fleet, accounts: readonly Account[], chance: Chance) {
    this.#fleet = fleet
    this.#accounts = accounts
    this.#chance = chance
  }

  async say(account: Account, text: string): Promise<Injected> {
    const at = Date.now()
    const said = await this.#fleet.phone.post('say', { from: account.user, to: account.bot, text })
    const one = { text, bot: account.bot, seq: Number(said.seq), messageId: String(said.message_id), at }
    this.injected.push(one)
    return one
  }

  /** Resolves when the next burst begins: what follows is the moment when most is in flight. */
  get nextBurst(): Promise<void> {
    return this.#burst.promise
  }

  /** Until `stop`, about 60 messages a second, in bursts of 1 to 12. */
  async write(stop: AbortSignal): Promise<void> {
    for (let n = 0; !stop.aborted; ) {
      const account = this.#chance.pick(this.#accounts)
      const many = this.#chance.between(1, 12)
      this.#burst.resolve()
      this.#burst = Promise.withResolvers()
      await Promise.all(
        Array.from({ length: many }, () => this.say(account, `m${n++} für ${account.session}`)),
      )
      await Bun.sleep(this.#chance.between(20, 180))
    }
  }

  /** One last message to every session: when it is stored, upstream has nothing older left to give. */
  async last(): Promise<Injected[]> {
    return Promise.all(this.#accounts.map(account => this.say(account, `last of ${account.session}`)))
  }
}
