/** The tables in which both engines have secrets. */
import {
  mapContext,
  mapContextToken,
  mapRaw,
  mapWebhook,
  type SecretChange,
  webhookSecrets,
} from './sealed-places.ts'

/** Columns of a row, all of them texts. */
export type SecretRow = Record<string, string | undefined>

/** A table with secrets, in both engines. */
export interface SecretTable {
  readonly table: string
  /** The columns that `map` needs. */
  readonly columns: readonly string[]
  /** Returns columns with changed secrets. */
  map(row: SecretRow, change: SecretChange): SecretRow
}

export const secretTables: readonly SecretTable[] = [
  {
    table: 'webhook',
    columns: ['id', ...webhookSecrets],
    map: ({ id = '', headers = '', secrets = '', link_key = '' }, change) =>
      mapWebhook({ headers, secrets, link_key }, id, change),
  },
  {
    table: 'outbox_lane',
    columns: ['peer', 'token', 'context'],
    map: ({ peer = '', token, context }, change) => ({
      token: token && mapContextToken(token, peer, change),
      context: context && JSON.stringify(mapContext(JSON.parse(context), peer, change)),
    }),
  },
  {
    table: 'message',
    columns: ['message_id', 'raw'],
    map: ({ message_id = '', raw = '' }, change) => ({ raw: mapRaw(raw, message_id, change) }),
  },
]
