/** The store on PostgreSQL: its parts, one for each interface. */
import { sessionKeyOf } from '../../model/session.ts'
import { constantSql } from '../../platform/sql.ts'
import { openAgents } from '../nouns/agents.ts'
import { createAsks } from '../nouns/asks.ts'
import { openAudit } from '../nouns/audit.ts'
import { createBacklog } from '../nouns/backlog.ts'
import { createBackups } from '../nouns/backups.ts'
import { createConsumers } from '../nouns/consumers.ts'
import { createEvents } from '../nouns/events.ts'
import { createInvitations } from '../nouns/invitations.ts'
import { openKeys } from '../nouns/keys.ts'
import { createRemoveOld } from '../nouns/old-rows.ts'
import { openPeople } from '../nouns/people.ts'
import { createRelays } from '../nouns/relays.ts'
import { createPrune, type Retention } from '../nouns/retention.ts'
import { openTopics } from '../nouns/topics.ts'
import { createUserNames } from '../nouns/user-names.ts'
import { openWebhooks } from '../nouns/webhooks.ts'
import { openNoun } from '../routine.ts'
import type { Store } from '../store.ts'
import { PgAcknowledgements } from './acknowledgements.ts'
import { PgBacklog } from './backlog.ts'
import { PgConsumers } from './consumers.ts'
import { PgConversations } from './conversations.ts'
import { logSql, openEvents } from './events.ts'
import { PgImportedMessages } from './imported.ts'
import { createShareUse } from './key-use.ts'
import { findLastWithoutGaps, leftovers, PgMaintenance, storeTable } from './maintenance.ts'
import { PgMessages } from './messages.ts'
import { findRetention } from './node-list.ts'
import { PgOutbox } from './outbox.ts'
import type { EngineContext } from './part.ts'
import { createPeopleParts, createScrub } from './people.ts'
import { createNounContext, createRunner } from './routines.ts'
import { touchSessions } from './sessions.ts'
import { takeOver } from './webhook-progress.ts'

export function createStore(context: EngineContext, retention: Retention): Store {
  const log = new PgMessages(context)
  const outbox = new PgOutbox(context)
  const nouns = createNounContext(context)
  const run = createRunner(context.db)
  const events = createEvents(nouns, logSql)
  return {
    durable: true,
    intake: new PgImportedMessages(context),
    log,
    events: openEvents(context.db, events),
    consumers: Object.assign(new PgConsumers(context, { log }), openNoun(createConsumers(nouns), run)),
    acknowledgements: new PgAcknowledgements(context, { log }),
    backlog: Object.assign(new PgBacklog(context), openNoun(createBacklog(nouns, logSql, events), run)),
    conversations: new PgConversations(context, { log }),
    names: openNoun(
      createUserNames(nouns, name => [touchSessions(sessionKeyOf(name))]),
      run,
    ),
    outbox,
    webhooks: openWebhooks(nouns, run, held => takeOver(context, held)),
    keys: { ...openKeys(nouns, run), shareUse: createShareUse(context.db) },
    invitations: openNoun(createInvitations(nouns), run),
    audit: openAudit(nouns, run, 50),
    backups: openNoun(createBackups(nouns), run),
    people: { ...openPeople(nouns, run, createPeopleParts(context)), ...createScrub(context) },
    agents: openAgents(nouns, run),
    asks: openNoun(createAsks(nouns), run),
    topics: openTopics(nouns, run),
    relays: openNoun(createRelays(nouns, logSql), run),
    maintenance: new PgMaintenance(context, {
      prune: createPrune(
        {
          ...context,
          dialect: nouns.dialect,
          findRetention: () => findRetention(context.db, retention),
          textId: constantSql('id'),
          findLast: findLastWithoutGaps,
          store: storeTable,
          leftovers,
        },
        run,
      ),
      removeOld: createRemoveOld(nouns, run),
    }),
  }
}
