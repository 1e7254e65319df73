/** Changes of a turn by the process that has claimed its conversation. */
import type { AgentWork, TurnChange } from '../index.ts'

/** Another process has claimed the conversation, because this one stood still for too long. */
export class ClaimLost extends Error {
  override readonly name = 'ClaimLost'
}

/** @throws ClaimLost; SvcError `store_unavailable` */
export async function changeTurn(
  work: Pick<AgentWork, 'changeTurn'>,
  id: number,
  change: TurnChange,
): Promise<void> {
  if (!(await work.changeTurn(id, change))) throw new ClaimLost('another process works on the conversation')
}
