export type { Gateway } from './face.ts'
