import { keyboard } from '../support/panel-hand.ts'
import { liveThrough, wide } from './life.ts'

liveThrough('en', wide, keyboard)
