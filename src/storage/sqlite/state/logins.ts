/** QR logins: a row each. With the credentials, which are files, they change under the data lock. */
import type { FileLock } from '../../../platform/lock.ts'
import type { Joining, JoinOutcome } from '../../invitations.ts'
import { joiningOf, toJoined } from '../../joined-logins.ts'
import type { LoginStore } from '../../logins.ts'
import type { SessionFiles } from './sessions.ts'
import { translateErrors } from './token-file.ts'

interface LoginPorts {
  lock: Pick<FileLock, 'run'>
  sessions: SessionFiles
  rows: Omit<LoginStore, 'finish'>
  joins: { join(joining: Joining): Promise<JoinOutcome> }
}

export const createLogins = ({ joins, lock, rows, sessions }: LoginPorts): LoginStore => ({
  ...rows,
  put: (login, now) => translateErrors(() => lock.run(() => rows.put(login, now))),
  async finish(login, bot, now) {
    let kept: Awaited<ReturnType<LoginStore['finish']>>
    await sessions.saveIn(async save => {
      if (((await rows.get(login.session, now))?.version ?? '') !== login.version) return
      let over = login
      if (login.invitation) {
        const joining = joiningOf(login, bot, await sessions.listLocked(), now)
        // The use counts first: a killed process leaves no account without the standing of a guest.
        over = toJoined(login, await joins.join(joining), joining.session)
      }
      const session = over.joined ? over.joined.session : login.session
      if (session !== undefined && sessions.readToken(session)?.bot.token !== bot.token)
        await save(session, { ...bot, ...(login.invitation && { invitation: login.invitation.id }) })
      kept = await rows.put(over, now)
    })
    return kept
  },
})
