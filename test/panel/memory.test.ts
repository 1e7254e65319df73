import { letsGo } from './memory.ts'

letsGo([], 720, 180_000)
