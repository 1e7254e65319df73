/** Secrets that are planted, and what may not be in any answer or line of the log. */
const hex = (letter: string, length: number) => letter.repeat(length)

export const secrets = {
  api: `planted-api-${hex('a1', 20)}`,
  bot: `planted${hex('b2', 20)}`,
  context: `AARzJWAFplanted${hex('Q', 40)}`,
  aesKey: hex('9e37', 8),
  param: `plantedparam${hex('Z', 40)}`,
  ticket: `plantedticket${hex('T', 40)}`,
  upload: `plantedupload${hex('U', 40)}`,
  confirmed: `late@im.bot:planted${hex('c3', 20)}`,
} as const

const spellings = [
  ...Object.values(secrets),
  Buffer.from(secrets.aesKey, 'hex').toString('base64'),
  Buffer.from(secrets.aesKey).toString('base64'),
  secrets.confirmed.slice(12),
]

/** Which of them a text holds. */
export const leakIn = (text: string): string | undefined => spellings.find(secret => text.includes(secret))
