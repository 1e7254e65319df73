/** The schema `svc` in steps: a node brings the database to the form that it knows. */
import { claimRows, readFunctions } from './read-functions.ts'
import { tables } from './tables.ts'
import { writeFunctions } from './write-functions.ts'

/** Steps that only go forward; `meta.form` is the number of steps done. */
export const steps: readonly string[] = [
  `${tables}${writeFunctions}${readFunctions}`,
  // Nodes of the version before go on: they name no such column, and it has a default.
  `ALTER TABLE lease ADD COLUMN hand_outs integer NOT NULL DEFAULT 0;
  ${claimRows}`,
  `ALTER TABLE agent_question ADD COLUMN entry bigint, ADD COLUMN message_id text, ADD COLUMN sent_at bigint,
    ADD COLUMN drafts text;`,
]

/** The form that this program writes. */
export const newestForm: number = steps.length
