/** The user of a conversation with an agent, with a link to the conversation if the caller may read it. */
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { Link } from '../ui/link.tsx'
import { Who } from '../users/avatar.tsx'

interface TalkProps {
  session: string
  userId: string
  name?: string | undefined
}

export function Talk({ session, userId, name }: TalkProps) {
  const who = <Who session={session} id={userId} name={name} />
  return may('conversations') ? <Link href={hrefOf({ session, userId })}>{who}</Link> : who
}
