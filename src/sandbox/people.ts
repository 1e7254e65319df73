/**
 * Users and bots: who exists, whose bot is alive, and the state between a user and a bot (window, quota,
 * typing).
 */
import { badArgument, SvcError } from '../model/error.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Core } from './core.ts'
import { newBotId, newBotToken, newContextToken, newUserId } from './wire.ts'

/** A simulated WeChat user. */
export interface SandboxUser {
  id: string
  name: string
  created_at: number
}

/** A bot that a login created; `live` until its user binds a new one. */
export interface Bot {
  id: string
  token: string
  user_id: string
  created_at: number
  live: boolean
  /** True if notifystart came last; `stopped` is true if notifystop did. */
  started: boolean
  stopped: boolean
  confirmed_seq: number
  delivered_seq: number
}

/** State between one bot and one user. */
export interface SandboxPeer {
  bot_id: string
  user_id: string
  context_token?: string
  last_inbound_at?: number
  /** Accepted sends since the last inbound message. */
  used: number
  /** Unix milliseconds of the last sends, refused ones included. */
  attempts: number[]
  blocked: boolean
  ticket?: string
  typing_until: number
}

const userNames = [
  'Xiao Ming 小明',
  'Li Hua 李华',
  'Wang Fang 王芳',
  'Zhang Wei 张伟',
  'Chen Jie 陈杰',
  'Liu Yang 刘洋',
]

/** The users and bots of the simulated WeChat, and the state between them. */
export class UsersAndBots extends RoomPart<{ core: Core }> {
  listUsers(): SandboxUser[] {
    return this.ports.core.db.all<SandboxUser>`SELECT * FROM user ORDER BY created_at, rowid`
  }

  findUser(id: string): SandboxUser | undefined {
    return this.ports.core.db.get<SandboxUser>`SELECT * FROM user WHERE id = ${id}`
  }

  /** Returns the user, and creates it if it is new. */
  ensureUser(id: string, name?: string): SandboxUser {
    return this.findUser(id) ?? this.addUser({ id, name })
  }

  /**
   * Adds a user.
   *
   * @throws SvcError `invalid_arguments` if the id exists already
   */
  addUser(options: { id?: string; name?: string } = {}): SandboxUser {
    const { db } = this.ports.core
    const count = Number(db.get`SELECT count(*) AS n FROM user`?.n)
    const user: SandboxUser = {
      id: options.id ?? newUserId(),
      name: options.name ?? userNames[count] ?? `User ${count + 1}`,
      created_at: this.ports.core.now(),
    }
    if (this.findUser(user.id)) throw badArgument('id', 'this user exists already')
    db.run`INSERT INTO user (id, name, created_at) VALUES (${user.id}, ${user.name}, ${user.created_at})`
    this.ports.core.notifyChange()
    return user
  }

  /** Returns the first user, who is the phone's owner by default. Creates one if there is none. */
  ensureFirstUser(): SandboxUser {
    const found = this.ports.core.db.get<SandboxUser>`SELECT * FROM user ORDER BY created_at, rowid LIMIT 1`
    return found ?? this.addUser()
  }

  /**
   * Returns the user with this id; default the first user.
   *
   * @throws SvcError `not_found`: an unknown id creates no user
   */
  getUser(id: string | undefined, field: string): SandboxUser {
    const user = id === undefined ? this.ensureFirstUser() : this.findUser(id)
    if (user) return user
    throw new SvcError('not_found', 'no such user', {
      field,
      hint: 'GET /phone/state lists the users, POST /phone/users adds one.',
    })
  }

  listBots(): Bot[] {
    return this.ports.core.db.all<BotRow>`SELECT * FROM bot ORDER BY created_at, rowid`.map(toBot)
  }

  findBot(id: string): Bot | undefined {
    return toOptionalBot(this.ports.core.db.get<BotRow>`SELECT * FROM bot WHERE id = ${id}`)
  }

  findBotByToken(token: string): Bot | undefined {
    return toOptionalBot(this.ports.core.db.get<BotRow>`SELECT * FROM bot WHERE token = ${token}`)
  }

  /** Returns the user's own bot if it is alive. */
  liveBotOf(userId: string): Bot | undefined {
    return toOptionalBot(
      this.ports.core.db.get<BotRow>`SELECT * FROM bot WHERE user_id = ${userId} AND live = 1
        ORDER BY created_at DESC, rowid DESC LIMIT 1`,
    )
  }

  /**
   * Returns the bot that this user's messages go to: the user's own, else the one last written to, else the
   * only living one.
   */
  findBotFor(userId: string): Bot | undefined {
    const own = this.liveBotOf(userId)
    if (own) return own
    const { db } = this.ports.core
    const last = db.get<BotRow>`SELECT bot.* FROM peer JOIN bot ON bot.id = peer.bot_id
      WHERE peer.user_id = ${userId} AND bot.live = 1 ORDER BY peer.last_inbound_at DESC LIMIT 1`
    if (last) return toBot(last)
    const live = db.all<BotRow>`SELECT * FROM bot WHERE live = 1 LIMIT 2`
    return live.length === 1 ? toOptionalBot(live[0]) : undefined
  }

  /** Creates a new bot for this user. The previous one expires, and its polls are woken. */
  bind(userId: string): Bot {
    const { db } = this.ports.core
    const id = newBotId()
    return db.transaction(() => {
      const former = this.liveBotOf(userId)
      if (former) this.expire(former.id)
      db.run`INSERT INTO bot (id, token, user_id, created_at)
        VALUES (${id}, ${newBotToken(id)}, ${userId}, ${this.ports.core.now()})`
      return this.findBot(id)!
    })
  }

  /** Makes the bot's token invalid: its calls answer -14. */
  expire(botId: string): void {
    this.ports.core.db.run`UPDATE bot SET live = 0 WHERE id = ${botId}`
    this.ports.core.waiters.notify(`bot ${botId}`)
    this.ports.core.notifyChange()
  }

  setStarted(botId: string, how: 'started' | 'stopped'): void {
    this.ports.core.db.run`UPDATE bot SET started = ${how === 'started' ? 1 : 2} WHERE id = ${botId}`
    this.ports.core.notifyChange()
  }

  loadPeer(botId: string, userId: string): SandboxPeer {
    const row = this.ports.core.db
      .get<PeerRow>`SELECT * FROM peer WHERE bot_id = ${botId} AND user_id = ${userId}`
    return row ? toPeer(row) : { ...newPeer, bot_id: botId, user_id: userId }
  }

  peersOf(userId: string): SandboxPeer[] {
    return this.ports.core.db.all<PeerRow>`SELECT * FROM peer WHERE user_id = ${userId}`.map(toPeer)
  }

  savePeer(peer: SandboxPeer): void {
    this.ports.core.db.run`REPLACE INTO peer (bot_id, user_id, context_token, last_inbound_at, used, attempts,
      blocked, ticket, typing_until)
      VALUES (${peer.bot_id}, ${peer.user_id}, ${peer.context_token}, ${peer.last_inbound_at}, ${peer.used},
      ${JSON.stringify(peer.attempts)}, ${peer.blocked ? 1 : 0}, ${peer.ticket}, ${peer.typing_until})`
  }

  /**
   * Records that the user wrote: opens the window, resets the quota, stores the context token of this
   * message.
   */
  recordMessage(botId: string, userId: string, contextToken = newContextToken()): string {
    this.savePeer({
      ...this.loadPeer(botId, userId),
      context_token: contextToken,
      last_inbound_at: this.ports.core.now(),
      used: 0,
    })
    return contextToken
  }
}

/** A bot as a row of the table `bot`. */
type BotRow = Omit<Bot, 'live' | 'started' | 'stopped'> & { live: number; started: number }

const toBot = (row: BotRow): Bot => ({
  ...row,
  live: row.live === 1,
  started: row.started === 1,
  stopped: row.started === 2,
})
const toOptionalBot = (row: BotRow | undefined) => (row ? toBot(row) : undefined)

type PeerRow = Omit<SandboxPeer, 'attempts' | 'blocked'> & { attempts: string; blocked: number }

const toPeer = (row: PeerRow): SandboxPeer => ({
  ...row,
  attempts: JSON.parse(row.attempts),
  blocked: row.blocked === 1,
})

/** Values of a peer without messages. */
const newPeer = { used: 0, attempts: [], blocked: false, typing_until: 0 }
