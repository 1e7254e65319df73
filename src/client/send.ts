/** The files of a send. Those on the machine of the program are uploaded first. */
import { badArgument, SvcError, withFieldNames } from '../model/error.ts'
import type { Http } from './http.ts'
import type { SendInput } from './verbs.ts'

/** A send whose files are at the service. */
interface UploadedSend {
  readonly sent: Readonly<Record<string, unknown>>
  /** How many files were uploaded. */
  readonly uploads: number
  /** Returns an error of the send, with the arguments that the program used. */
  withFields(error: unknown): unknown
}

const kinds = ['image', 'voice', 'file', 'video'] as const

/** Uploads the files that a send names by their paths. @throws SvcError `invalid_arguments` if one cannot be read */
export async function uploadMedia(
  http: Http,
  input: SendInput,
  signal: AbortSignal | undefined,
): Promise<UploadedSend> {
  const { image_path, voice_path, file_path, video_path, file_name, media = [], ...rest } = input
  const paths = { image_path, voice_path, file_path, video_path }
  const own = kinds.flatMap(kind => {
    const path = paths[`${kind}_path`]
    return path === undefined ? [] : [{ kind, path, field: `${kind}_path` }]
  })
  const isNamed = ({ kind }: { kind: string }) => kind === 'file' || own.length === 1
  if (file_name !== undefined && !own.some(isNamed))
    throw badArgument('file_name', 'expected together with the path of one file')
  const all = [
    ...own.map(one => ({ ...one, ...(file_name !== undefined && isNamed(one) && { file_name }) })),
    ...media.map((one, nth) => ({ ...one, field: `media[${nth}].path` })),
  ]
  let uploads = 0
  const placed: object[] = []
  for (const { field, path, ...others } of all) {
    const { file_name: name } = others
    if (path === undefined) placed.push(others)
    else {
      const { uploadFile } = await loadFiles(field)
      placed.push({ ...others, ...(await uploadFile(http, { path, field, file_name: name }, signal)) })
      uploads++
    }
  }
  const rename = (field: string) =>
    field.replace(
      /^media\[(\d+)\]/,
      (_all, nth: string) => own[Number(nth)]?.field ?? `media[${Number(nth) - own.length}]`,
    )
  return {
    sent: { ...rest, ...(placed.length > 0 && { media: placed }) },
    uploads,
    withFields: error =>
      error instanceof SvcError
        ? withFieldNames(error, ({ field, problem }) => ({ field: rename(field), problem }))
        : error,
  }
}

/** @throws SvcError `invalid_arguments` in a browser */
export function loadFiles(field: string): Promise<typeof import('./files.ts')> {
  if (!('process' in globalThis)) throw badArgument(field, 'a browser has no files: use upload ids')
  return import('./files.ts')
}
