import { letsGo } from './memory.ts'

letsGo(['/sessions/default', '/conversations?q=message', 'CHAT?media=FILE'], 10_000, 1_200_000)
