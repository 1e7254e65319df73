/** Facts about the service that a door shows to people: what it is and where its files are. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, optional } from './shapes.ts'

/** The facts that stay the same while the process runs. */
export const ServiceFacts = Type.Object({
  version: Type.String(),
  started_at: integer('Unix milliseconds: when this process started.'),
  base_path: Type.String(),
  media_root: Type.String(),
  store_max_age_days: integer('0: no limit.'),
  store_max_count: integer('0: no limit.'),
  max_upload_bytes: Type.Integer(),
  sandbox_phone: optional.text('URL of the simulated phone.'),
  rest_url: optional.text('URL of the REST service beside the panel.'),
  token_required: Type.Boolean(),
})
export type ServiceFacts = Static<typeof ServiceFacts>
