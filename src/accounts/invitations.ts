/**
 * Invitations: a link by which people log an account in by themselves, as guests. The secret of the link is the only proof of
 * a visitor; the store has its hash. Each browser has a login of its own, which no other holder of the link sees.
 */

import { agentNameForm, agentNameRule } from '../model/agent.ts'
import { badArgument, SvcError } from '../model/error.ts'
import {
  type AddedInvitation,
  defaultLifetimeMs,
  defaultTurnsPerDay,
  type Invitation,
  type InvitationView,
  invitationPath,
  type NewInvitationInput,
} from '../model/invitation.ts'
import type { LoginFlow } from '../model/login.ts'
import { formatPrincipal, type Principal } from '../model/principal.ts'
import { defaultSessionName, normalizeSessionName, sessionKeyOf } from '../model/session.ts'
import { readTopicName } from '../model/topic-name.ts'
import type { Clock } from '../platform/clock.ts'
import { isVisible } from '../platform/escape-controls.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import { RoomPart } from '../platform/runtime.ts'
import { isLoopback } from '../platform/serve.ts'
import { type InvitationStore, invitationStatusOf, type StoredInvitation } from '../storage/invitations.ts'
import { keyOfMaker } from '../storage/keys.ts'
import type { SessionStore } from '../storage/state.ts'
import type { Logins, Visitor } from './logins.ts'

export interface InvitationPorts {
  invitations: InvitationStore
  sessions: Pick<SessionStore, 'list'>
  logins: Pick<Logins, 'beginInvited' | 'findInvited' | 'giveCode'>
  /** As `listBelow` of `storage/keys.ts`, for one key. */
  listBelow(id: string): Promise<ReadonlySet<string>>
  /** Whether callers over TCP need a key, because there is one. */
  hasKeys(): Promise<boolean>
  /** Returns the names of the agents that run. */
  listRunningAgents(): Promise<readonly string[]>
  /** Returns the address under which the page is reached, as far as it is known. */
  findUrl(): Promise<string | undefined>
  /** URL of the simulated phone in the sandbox. */
  phoneUrl?: string | undefined
  clock: Clock
}

/** What a visitor shows: the secret of the link, and the cookie of the browser. */
export interface Visit {
  secret: string
  browser: string
  /** Its network address, if it is known. */
  address?: string | undefined
}

const hashOf = (secret: string): string => nodeCrypto().hash('sha256', secret, 'hex')

export class Invitations extends RoomPart<InvitationPorts> {
  /** Lists the invitations, oldest first: for a key those that it made, and those of the keys below it. */
  async list(by: Principal): Promise<Invitation[]> {
    const { clock, invitations, sessions } = this.ports
    const records = Map.groupBy(await sessions.list(), ({ bot }) => bot?.invitation)
    const all = await this.#visible(by, await invitations.list())
    return all.map(one => {
      const names = (records.get(one.id) ?? []).map(({ name }) => name)
      return toInvitation(one, names.sort(), clock.now())
    })
  }

  /**
   * Makes an invitation. Only this answer has its secret.
   *
   * @throws SvcError `invalid_arguments`, `unauthorized` if the key has ended meanwhile
   */
  async add(by: Principal, input: NewInvitationInput): Promise<AddedInvitation> {
    const { clock, findUrl, invitations, listRunningAgents } = this.ports
    const { max_uses = 1, agent, trusted = false, inviter = by.name } = input
    const topic = input.topic === undefined ? undefined : readTopicName(input.topic, 'topic')
    const created_at = clock.now()
    const { expires_at = created_at + defaultLifetimeMs, turns_per_day = defaultTurnsPerDay } = input
    if (expires_at <= created_at) throw badArgument('expires_at', 'expected a time in the future')
    const name = checkNew({ ...input, inviter, max_uses })
    if (agent !== undefined && !trusted && (await this.#isOpen())) throw openServiceError()
    const secret = randomBytes(32).toString('base64url')
    const id = `inv_${randomBytes(6).toString('hex')}`
    const made_by = formatPrincipal(by)
    const made = {
      id,
      name,
      hash: hashOf(secret),
      trusted,
      turns_per_day,
      max_uses,
      made_by,
      created_at,
      expires_at,
    }
    const stored = withoutUndefined({ ...made, agent, inviter, topic })
    // Asked before it is stored: what fails after that would lose the link.
    const url = await findUrl()
    const running = agent === undefined ? [] : await listRunningAgents()
    await invitations.add(stored)
    const note = noteAbout(url)
    return {
      ...toInvitation({ ...stored, used: 0 }, [], created_at),
      link: `${url ?? ''}${invitationPath}#${secret}`,
      ...(note !== undefined && { note }),
      ...(agent !== undefined && { agent_runs: running.includes(agent) }),
    }
  }

  /** Ends an invitation, by its id or the name of an active one. @throws SvcError `not_found` */
  async revoke(by: Principal, which: string): Promise<Invitation> {
    const { clock, invitations } = this.ports
    const all = await this.list(by)
    const named = all.filter(({ name, status }) => name === which && status === 'active')
    if (named.length > 1)
      throw badArgument('id', `several invitations have this name: ${named.map(({ id }) => id).join(', ')}`)
    const found = all.find(({ id }) => id === which) ?? named[0]
    if (!found)
      throw new SvcError('not_found', 'there is no such invitation', { hint: 'List the invitations.' })
    await invitations.revoke(found.id, clock.now())
    return (await this.list(by)).find(({ id }) => id === found.id) ?? found
  }

  /**
   * Returns what the page shows. Waits up to `timeoutMs` for a change of the login of this browser.
   *
   * @throws SvcError `not_found` for a wrong secret, as the next two
   */
  async look(visit: Visit, seen: number, timeoutMs: number, signal: AbortSignal): Promise<InvitationView> {
    const { logins } = this.ports
    const one = await this.#findBySecret(visit.secret)
    const by = visitorOf(one, visit)
    // Without a cookie there is no login, so there is nothing to wait for.
    const found = visit.browser === '' ? undefined : await logins.findInvited(by, seen, timeoutMs, signal)
    return this.#view((await this.ports.invitations.get(one.id)) ?? one, found)
  }

  /** Starts the login of this browser, or joins it. @throws SvcError `rate_limited`, `upstream_error` */
  async join(visit: Visit): Promise<InvitationView> {
    const { invitations, logins } = this.ports
    const one = await this.#findBySecret(visit.secret)
    const { id, name, max_uses, used } = one
    if (!this.#isActive(one)) return this.#view(one, undefined)
    const flow = await logins.beginInvited(visitorOf(one, visit), {
      name,
      ...(max_uses > 1 && { number: used + 1 }),
      countLeft: async () => {
        const now = await invitations.get(id)
        return now && this.#isActive(now) ? now.max_uses - now.used : 0
      },
    })
    return flow ? this.#view(one, flow) : { ...this.#view(one, undefined), state: 'wait' }
  }

  /** Gives the digits of the phone to the login of this browser. */
  async giveCode(visit: Visit, code: string, signal: AbortSignal): Promise<InvitationView> {
    const { logins } = this.ports
    const one = await this.#findBySecret(visit.secret)
    const by = visitorOf(one, visit)
    const found = await logins.findInvited(by, 0, 0, signal)
    if (!found) return this.#view(one, undefined)
    return this.#view(one, await logins.giveCode(by, found.login_id, code, signal))
  }

  #view(
    one: StoredInvitation,
    login: (LoginFlow & { joined?: { outcome: string } | undefined }) | undefined,
  ): InvitationView {
    const inviter = one.inviter === undefined ? {} : { inviter: one.inviter }
    if (login?.joined?.outcome === 'over') return { ...inviter, state: 'late' }
    const isDone = login?.status === 'confirmed' || login?.status === 'already_bound'
    // The person must not scan a code any more. One that was scanned may be confirmed, so the page goes on asking.
    if (!isDone && !this.#isActive(one))
      return { ...inviter, state: 'over', ...(login && !hasEnded(login) && { revision: login.revision }) }
    if (!login) return { ...inviter, state: 'ready' }
    const { notice, qr_url, revision, status } = login
    const hasMore = isDone && one.max_uses > 1 && this.#isActive(one)
    return withoutUndefined({
      ...inviter,
      state: 'login' as const,
      status,
      revision,
      qr_url,
      phone_url: qr_url && this.ports.phoneUrl,
      wrong_code: notice === 'wrong_code' ? true : undefined,
      has_more: hasMore ? true : undefined,
    })
  }

  async #findBySecret(secret: string): Promise<StoredInvitation> {
    const found = await this.ports.invitations.findByHash(hashOf(secret))
    if (found) return found
    throw new SvcError('not_found', 'this link is not valid', { hint: 'Ask for a new one.' })
  }

  /**
   * Whether programs of this machine may call svc without a key. The sandbox of an agent shares the network, so the programs
   * of a guest's agent are among them. In the sandbox of WeChat nobody is a stranger.
   */
  async #isOpen(): Promise<boolean> {
    const { hasKeys, phoneUrl } = this.ports
    return phoneUrl === undefined && !(await hasKeys())
  }

  #isActive(one: StoredInvitation): boolean {
    return invitationStatusOf(one, this.ports.clock.now()) === 'active'
  }

  async #visible(by: Principal, all: readonly StoredInvitation[]): Promise<readonly StoredInvitation[]> {
    if (by.grant === undefined || by.id === undefined) return all
    const below = await this.ports.listBelow(by.id)
    return all.filter(({ made_by }) => below.has(keyOfMaker(made_by) ?? ''))
  }
}

/** Checks what people typed. @returns the name @throws SvcError `invalid_arguments` */
function checkNew({ agent, inviter, name: typed, trusted, max_uses }: NewInvitationInput): string {
  if (trusted && agent === undefined) throw badArgument('trusted', 'expected together with agent')
  if (inviter !== undefined && (/[\p{C}\p{Zl}\p{Zp}]/u.test(inviter) || !isVisible(inviter)))
    throw badArgument('inviter', 'expected one line without control characters')
  if (agent !== undefined && !agentNameForm.test(agent))
    throw badArgument('agent', `expected the name of an agent: ${agentNameRule}`)
  const name = normalizeSessionName(typed)
  if (max_uses === 1 && sessionKeyOf(name) === defaultSessionName)
    throw badArgument('name', `"${name}" is the name of your own account`, {
      hint: 'A login without a name uses it.',
      details: { session_name: 'reserved' },
    })
  // The name of each account has to be one, too.
  normalizeSessionName(`${name}-${max_uses}`)
  return name
}

const visitorOf = ({ id }: StoredInvitation, { address, browser }: Visit): Visitor => ({
  invitation: id,
  browser: hashOf(browser),
  address,
})

/** Whether a login is over, so that nothing is to come. */
const hasEnded = ({ qr_url, status }: LoginFlow): boolean => qr_url === undefined && status === 'expired'

function toInvitation(one: StoredInvitation, sessions: string[], now: number): Invitation {
  const { hash: _, ...shown } = one
  return { ...shown, status: invitationStatusOf(one, now), sessions }
}

const openServiceError = (): SvcError =>
  badArgument(
    'agent',
    'there is no key yet, so a program that this agent runs for a guest could call svc as you',
    {
      hint: 'Make a key first, such as: svc key add me --can all. From then on callers over the network need a key or the token.',
      details: { why: 'no_key' },
    },
  )

/** Returns why others may not be able to open a link to an address. */
function noteAbout(url: string | undefined): string | undefined {
  const how = 'Start the service with --public-url and the address under which others reach it.'
  if (url === undefined) return `The address of the service is not known: put it before the link. ${how}`
  return isLoopback(new URL(url).hostname) ? `Only this machine can open this link. ${how}` : undefined
}
