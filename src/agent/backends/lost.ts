/** What a user reads when the agent no longer has the conversation. */
import { isChineseFor } from '../../model/language.ts'

/** Puts a note before an answer, in the language of the prompt. */
export const withLostNote = (answer: string, prompt: string): string =>
  `${isChineseFor([prompt]) ? chinese : english}\n\n${answer}`

const english = '(The agent does not have the earlier conversation any more. This is a new one.)'
const chinese = '（智能体已没有之前的对话，这是新的对话。）'
