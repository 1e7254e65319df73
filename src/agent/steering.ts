/** The commands about a conversation: its earlier sessions, and the model, mode and folder of its agent. */
import { basename } from 'node:path'
import { type ConversationState, isSvcError, type KeptSession } from '../index.ts'
import { plainOf } from '../model/typed-answer.ts'
import { RoomPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { AgentOffers, Backend, Choice, SessionContext } from './backend.ts'
import { guessName } from './commands.ts'
import { formatFailure } from './failure-text.ts'
import { goTo, toTitle } from './sessions.ts'
import type { Place } from './talkers.ts'
import type { Texts } from './texts.ts'
import { findPlace, type RunnerPorts } from './turn.ts'

/** Entries of a list that are shown, and those of one of sessions or commands. */
const [mostShown, mostSessions] = [20, 10]
/** Length of a name and of its description in a list. */
const shownLength = 60
/** Time for an agent to say what it offers. */
const lookMs = 30_000

type Text = (texts: Texts) => string

/** What a command lists, and takes one of. */
interface Menu {
  readonly choices: readonly MenuChoice[]
  /** Id of the current choice. */
  readonly current: string | undefined
  take(choice: MenuChoice): Promise<Text>
}

interface MenuChoice extends Choice {
  /** Absent for other choices. */
  readonly session?: KeptSession
}

export class Steering extends RoomPart<RunnerPorts> {
  /** Lists the choices of a command, or takes the one that a person names. @returns the answer */
  async obey(word: 'cd' | 'mode' | 'model' | 'resume', said: string): Promise<Text> {
    const { key, log, over, people } = this.ports
    const decides = await people.decides(key.session, key.user)
    if (!decides && word !== 'resume') return ({ steer }) => steer.notYours
    try {
      if (word === 'cd') return await this.#choose(word, said, await this.#folders())
      if (word !== 'resume') return await this.#choose(word, said, await this.#offered(word))
      return await this.#choose(word, said, await this.#sessions(said, decides))
    } catch (error) {
      if (over.aborted || isSvcError(error, 'store_unavailable')) throw error
      log.warn('an agent does not tell what it offers', { ...key, error })
      return texts => (decides ? formatFailure(error, texts.failure) : texts.failed)
    }
  }

  /** Lists the sessions that svc has stored. */
  async listStored(): Promise<Text> {
    return this.#choose('resume', '', await this.#sessions('', false))
  }

  /** Returns the first commands of the agent itself; undefined if it fails to tell them. */
  async listCommands(): Promise<string[] | undefined> {
    const { key, log } = this.ports
    const looked = await this.#look().catch(error => {
      log.warn('an agent does not tell its commands', { ...key, error })
      return null
    })
    return looked === null
      ? undefined
      : (looked?.commands ?? []).slice(0, mostSessions).map(({ description, name }) => {
          const more = toTitle(description, shownLength)
          return `/${toTitle(name)}${more && ` – ${more}`}`
        })
  }

  /** Takes the choice that a text means. If it may mean several, or is empty, lists those. */
  async #choose(word: string, said: string, { choices, current, take }: Menu): Promise<Text> {
    // The id of a session or a folder is not what a person writes.
    const [found, ...others] = findChoices(choices, said, word === 'mode' || word === 'model')
    const near = found ? undefined : guessName(said, [...new Set(choices.map(({ name }) => name))])
    if (near !== undefined) return ({ agents }) => agents.unsure(toTitle(near, shownLength), word)
    if (!found && (choices.length > 0 || (word === 'resume' && said !== '')))
      return ({ steer }) => steer.noSuch(word)
    if (!found) return ({ steer }) => (word === 'resume' ? steer.noSessions : steer.none)
    if (said !== '' && others.length === 0) return take(found)
    const all = [found, ...others]
    const sessions = all.flatMap(({ session }) => session ?? []).slice(0, mostSessions)
    // From now on a number means one of these.
    if (sessions.length > 0) await this.ports.change(now => ({ ...now, shown: sessions }))
    const shown = all.slice(0, sessions.length || mostShown)
    const minutesOf = ({ at }: KeptSession) => Math.round((this.ports.clock.now() - at) / 60_000)
    return ({ steer }) => {
      const lines = shown.map((one, nth) => {
        const age = one.session && steer.age(minutesOf(one.session))
        const more = [age, toTitle(one.description, shownLength)].filter(Boolean).join(', ')
        const number = one.session ? nth + 1 : choices.indexOf(one) + 1
        return steer.item(number, toTitle(one.name, shownLength), one.id === current, more)
      })
      const left = sessions.length > 0 ? 0 : all.length - shown.length
      return [...lines, ...(left > 0 ? [steer.left(left)] : []), steer.howTo(`/${word}`)].join('\n')
    }
  }

  /**
   * The sessions that a text may mean: for a number those that were shown last. What the agent itself lists is only for the
   * person who decides.
   */
  async #sessions(said: string, decides: boolean): Promise<Menu> {
    const { log } = this.ports
    const { agent_session: current, sessions = [], shown = [] } = await this.#state()
    const places = await this.#places()
    const isOther = (one: KeptSession) => sessions.every(({ agent_session: id }) => id !== one.agent_session)
    const folders = places.map(({ folder }) => folder)
    const listOwn = () => this.#ask((backend, context) => backend.listSessions?.(context, folders))
    const own = await (decides && !isNumber(said) ? listOwn() : Promise.resolve([])).catch(error =>
      log.warn('an agent does not list its sessions', { error }),
    )
    const all = [...sessions, ...(own ?? []).filter(isOther)].toSorted((one, other) => other.at - one.at)
    const nameOf = ({ folder }: KeptSession) => places.find(one => one.folder === folder)?.name
    const choices = (isNumber(said) ? shown : all).map(session => ({
      id: session.agent_session,
      name: toTitle(session.title ?? session.agent_session),
      description: places.length > 1 ? (nameOf(session) ?? basename(session.folder)) : '',
      session,
    }))
    const take = async ({ session }: MenuChoice) =>
      !session || (!decides && isOther(session))
        ? (texts: Texts) => texts.steer.noSuch('resume')
        : this.#resume(session)
    return { choices, current, take }
  }

  async #resume(session: KeptSession): Promise<Text> {
    const { change, clock } = this.ports
    const { agent_session: agentSession, folder, title = agentSession } = session
    // An earlier session may be in a folder that is not open to the person any more.
    const place = (await this.#places()).find(one => one.folder === folder)
    const look = (backend: Backend, context: SessionContext) => backend.look?.({ ...context, agentSession })
    if (!place || (await this.#ask(look, place))?.isSame === false) return ({ steer }) => steer.lost
    await change(now => goTo(now, { folder, place: place.name, session }, clock.now()), true)
    return ({ steer }) => steer.chosen(toTitle(title))
  }

  /** The folders that are open to the person. One goes on with the session that was its last. */
  async #folders(): Promise<Menu> {
    const { change, clock } = this.ports
    const { place } = await this.#state()
    const places = await this.#places()
    const choices = places.map(({ folder, name = basename(folder) }) => ({
      id: folder,
      name,
      description: '',
    }))
    const current = (places.find(({ name }) => name === place) ?? places[0])?.folder
    const take = async ({ id: folder, name: shown }: MenuChoice) => {
      const name = places.find(one => one.folder === folder)?.name
      const go = (now: ConversationState) => {
        const session = now.sessions?.find(one => one.folder === folder)
        return goTo(now, { folder, place: name, session }, clock.now())
      }
      if (folder !== current) await change(go, true)
      return ({ steer }: Texts) => steer.chosen(toTitle(shown))
    }
    return { choices: choices.length > 1 ? choices : [], current, take }
  }

  /** The modes or models that the agent offers. */
  async #offered(kind: 'mode' | 'model'): Promise<Menu> {
    const { [kind]: chosen } = await this.#state()
    const looked = await this.#look()
    if (kind === 'model' && looked?.untold) throw looked.untold
    const { choices = [], current } = looked?.[kind] ?? {}
    const take = async ({ asks, id, name }: MenuChoice) => {
      await this.ports.change(now => ({ ...now, [kind]: id }), true)
      return ({ steer }: Texts) =>
        steer.chosen(toTitle(name, shownLength)) + (asks === false ? `\n${steer.asksNot}` : '')
    }
    return { choices, current: choices.some(({ id }) => id === chosen) ? chosen : current, take }
  }

  #look(): Promise<AgentOffers | undefined> {
    return this.#ask((backend, context) => backend.look?.(context))
  }

  async #state(): Promise<ConversationState> {
    const { key, work } = this.ports
    return (await work.claim(key))?.state ?? {}
  }

  #places(): Promise<Place[]> {
    const { folders, key, people } = this.ports
    return people.listFolders({ session: key.session, user_id: key.user }, folders)
  }

  /** Asks an agent something about the conversation, but not for ever. @param at another folder than the current one */
  async #ask<T>(
    ask: (backend: Backend, context: SessionContext) => Promise<T> | undefined,
    at?: Place,
  ): Promise<T | undefined> {
    const { backend, clock, delivery, key, over } = this.ports
    over.throwIfAborted()
    const chat = { session: key.session, user_id: key.user }
    const state = await this.#state()
    const context = await findPlace(this.ports, chat, at ? { ...state, place: at.name } : state)
    const late = new AbortController()
    using linked = linkSignals(over, late.signal)
    const { signal } = linked
    const noteStarting = () =>
      void delivery.tell(chat, texts => texts.starting(), `agent:starting:${clock.now()}`).catch(() => {})
    void clock.sleep(lookMs, signal).then(() => late.abort(new Error('the agent does not answer')))
    try {
      return await ask(backend, { ...context, signal, noteStarting })
    } finally {
      late.abort()
    }
  }
}

const isNumber = (said: string): boolean => /^\d+$/.test(plainOf(said).trim())

/**
 * Returns what a text means: the choice with this number or name, else those whose names have it as a part.
 *
 * @param hasIds whether their ids are names, too
 */
export function findChoices<T extends Choice>(all: readonly T[], said: string, hasIds = true): T[] {
  const plain = plainOf(said).trim()
  if (isNumber(said)) return all.slice(Number(plain) - 1, Number(plain))
  const namesOf = ({ id, name }: T) => [plainOf(name), ...(hasIds ? [plainOf(id)] : [])]
  const exact = all.filter(one => namesOf(one).includes(plain))
  return exact.length > 0 ? exact : all.filter(one => namesOf(one).some(name => name.includes(plain)))
}
