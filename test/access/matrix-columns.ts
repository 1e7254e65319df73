/** The callers of the matrix of access: one with each kind of grant, and those whose key has ended. */
import {
  commonKeyRights,
  type Grant,
  grantableRights,
  presets,
  type Right,
  serviceRights,
} from '../../src/model/access.ts'
import type { NewKeyInput } from '../../src/model/key.ts'
import { owner } from '../../src/model/principal.ts'
import type { Operation } from '../../src/operations/operation.ts'
import { operations } from '../../src/operations/operations.ts'
import { tools } from '../../src/operations/tools.ts'
import { type Caller, type Door, type Doors, startDoors } from './matrix-doors.ts'
import { setUpWorld, type Things } from './matrix-world.ts'

const masterToken = 'correct-horse-battery-staple'

export interface Column extends Caller {
  readonly name: string
  readonly grant?: Grant
}

/** Rights that a key limited to accounts or users may have; all of them together. */
const limitedRights = presets.all.filter(
  right => !serviceRights.includes(right) && !commonKeyRights.includes(right),
)
// `approve` and `send` are together only in the preset "all".
const can = limitedRights.filter(right => right !== 'approve')

/** Makes a key over REST. */
async function postKey({ url }: Doors, input: object, { token }: Caller) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const response = await fetch(`${url}/keys`, { method: 'POST', headers, body: JSON.stringify(input) })
  return (await response.json()) as { key: string; code?: string }
}

/** Sets up the world, the doors of a service that does not receive, and the callers. */
export async function setUpMatrix() {
  const world = await setUpWorld()
  await world.live.gateway.close()
  const idle = await world.live.beside({ start: false })
  const doors = await startDoors(idle, masterToken)
  const columns = new Map<string, Column>()
  /** Callers whose key has ended. */
  const ended = new Map<string, Caller>()
  /** Signs in with a key at every door. */
  const columnOf = async (name: string, token: string): Promise<Column> => {
    const by = (await idle.gateway.keys.authenticate(token))!
    const column = { name, token, by, grant: by.grant!, cookie: await doors.signIn(token) }
    columns.set(name, column)
    return column
  }
  const addColumn = async (name: string, input: Partial<NewKeyInput>): Promise<Column> => {
    const { key } = await idle.gateway.keys.add({ name, ...input }, owner)
    return await columnOf(name, key)
  }

  for (const preset of Object.keys(presets)) await addColumn(`preset ${preset}`, { can: [preset as 'read'] })
  for (const right of grantableRights.filter(right => !(right in presets)))
    await addColumn(`right ${right}`, { can: [right], ...(right === 'notify' && { topics: ['home'] }) })
  for (const { name } of tools) await addColumn(`tool ${name}`, { tools: [name] })
  const { own } = world
  await addColumn('session', { can, sessions: [own.session] })
  await addColumn('user', { can, users: [own.user] })
  await addColumn('session and user', { can, sessions: [own.session], users: [own.user] })
  await addColumn('approver of a session', { can: ['approve', 'outbox'], sessions: [own.session] })
  columns.set('owner', {
    name: 'owner',
    token: masterToken,
    by: owner,
    cookie: await doors.signIn(masterToken),
  })

  // Keys that other keys made, and secrets that were replaced.
  const parent = await addColumn('parent', { can: ['all'] })
  const made = await postKey(doors, { name: 'child', can: ['history', 'keys'] }, parent)
  await columnOf('narrower child', made.key)
  const rotated = await addColumn('rotated, old secret', { can: ['read'] })
  await idle.gateway.keys.rotate(rotated.by.id!, 3_600_000, owner)

  const revoked = await addColumn('revoked', { can: ['all'] })
  const orphan = await postKey(doors, { name: 'orphan', can: ['read'] }, revoked)
  await columnOf('made by a revoked key', orphan.key)
  await idle.gateway.keys.revoke(revoked.by.id!, owner)
  const expiring = await addColumn('expired', { can: ['all'], expires_at: idle.clock.now() + 60_000 })
  idle.clock.advance(60_000)
  const replaced = await addColumn('rotated, old secret after its time', { can: ['all'] })
  await idle.gateway.keys.rotate(replaced.by.id!, 1000, owner)
  idle.clock.advance(1000)
  for (const name of ['revoked', 'made by a revoked key', expiring.name, replaced.name]) {
    ended.set(name, columns.get(name)!)
    columns.delete(name)
  }
  ended.set('unknown', { token: `svc_abcd1234_${'0'.repeat(64)}`, cookie: 'svc_panel_1=1.a.b', by: owner })

  return {
    ...{ world, idle, doors, columns, ended },
    /** Each operation at each door that has it. */
    rows: operations.flatMap(operation =>
      Object.entries<Door>(doors.doors).flatMap(([at, door]) =>
        door.offers(operation) ? [{ at, door, operation, name: `${operation.name} at ${at}` }] : [],
      ),
    ),
    async [Symbol.asyncDispose]() {
      await doors[Symbol.asyncDispose]()
      await idle[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
}

const listOf = (right: Operation['right']): readonly Right[] => (typeof right === 'string' ? [right] : right)

/** Returns the right that a caller lacks for a call, from the grant alone. */
export function lackedBy(
  { grant }: Column,
  operation: Operation,
  input: Record<string, unknown>,
): Right | undefined {
  if (!grant) return undefined
  const held = [...grant.rights, ...commonKeyRights]
  const needed = listOf(operation.right)
  const asTool = grant.tools?.includes(operation.partOf ?? operation.name) === true
  if (!asTool && !needed.some(right => held.includes(right))) return needed[0]
  const further = operation.furtherRights?.(operation.parse(input)).map(listOf) ?? []
  return further.find(oneOf => !oneOf.some(right => held.includes(right)))?.[0]
}

/** Resources, prompts and completions of MCP, and the operations that each needs. */
export const mcpParts = (things: Things) => {
  const { message, session, user } = things
  const users = `svc://sessions/${session}/users`
  const conversation = `svc://conversations/${session}/${encodeURIComponent(user)}`
  const templates = {
    'svc://sessions/{session}/users': [users, ['list_users']],
    'svc://conversations/{session}/{user}': [conversation, ['get_conversation']],
    'svc://media/{message_id}/{item}': [`svc://media/${message}/0`, ['get_media']],
  } as const
  const fixed = {
    'svc://sessions': ['sessions'],
    'svc://inbox': ['history'],
    'svc://users': ['list_users'],
  } as const
  const prompts = {
    answer_newest: ['list_conversations', 'get_conversation', 'send'],
    summarise_conversation: ['get_conversation'],
  } as const
  return { fixed, templates, prompts }
}
