/**
 * What the tools and their errors say of our HTTP paths, for callers that have none: the command line, and an agent
 * whose client started svc on this machine. There files are named by their paths, and svc itself is the other way in.
 */

const anyPath = "A path may name any file of this machine except svc's own."
const somePaths =
  "A path must lie in the folder that svc was started in, or in the media folder of svc's data directory."

/** As the tools say it → as it is there. A test finds what is missing here. */
const spoken: readonly (readonly [RegExp, string])[] = [
  [/ on the machine of the service, inside its media root/g, ''],
  [
    /, inside the media root; its folder downloads without it/g,
    "; media/downloads of svc's data directory without it",
  ],
  [
    /Paths must lie in the media root of the service; from another machine upload with POST \/media, or give a URL or base64 data\./g,
    anyPath,
  ],
  [/ To fetch the bytes over HTTP instead, GET \/media\/\{message_id\}\/\{item\}\./g, ''],
  [/From POST \/media\./g, 'Of an upload over HTTP; here name a file by its path instead.'],
  [
    /GET \/outbox shows it, DELETE \/outbox\/\{id\} cancels it/g,
    'svc outbox shows it, svc outbox cancel cancels it',
  ],
  [/Upload it with POST \/media and send its upload_id\./g, 'Name a file by its path instead.'],
  [/upload the file with POST \/media and pass its upload_id/g, 'name a file by its path'],
  [
    /Uploads are kept for 24 hours; POST \/media again\./g,
    'Uploads are kept for 24 hours; name a file by its path instead.',
  ],
  [/GET \/outbox/g, 'svc outbox'],
]

/** The same text for a caller on this machine, who may name any file or (`isAnyFile` false) those of some folders. */
export function saidLocally(text: string, isAnyFile = true): string {
  const said = spoken.reduce((so, [pattern, here]) => so.replace(pattern, here), text)
  return isAnyFile ? said : said.replace(anyPath, somePaths)
}

/** A value with every `description` in it said so. */
export function describedLocally<T>(value: T): T {
  if (Array.isArray(value)) return value.map(describedLocally) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      key === 'description' && typeof one === 'string' ? saidLocally(one) : describedLocally(one),
    ]),
  ) as T
}
