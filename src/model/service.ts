/** The service as a door with people behind it shows it: what it is, and where things lie. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, optional, text } from './shapes.ts'

/** What a door knows of its service, and what stays as it is while the process runs. */
export const ServiceFacts = Type.Object({
  version: Type.String(),
  started_at: integer('Unix milliseconds: when this process started.'),
  base_path: Type.String(),
  media_root: Type.String(),
  store_max_age_days: integer('0: no limit.'),
  store_max_count: integer('0: no limit.'),
  max_upload_bytes: Type.Integer(),
  sandbox_phone: optional(text('Address of the simulated phone.')),
  rest_url: optional(text('Address of the REST service beside the panel.')),
  token_required: Type.Boolean(),
})
export type ServiceFacts = Static<typeof ServiceFacts>
