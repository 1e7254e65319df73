/** A process of its own, which an agent starts as an MCP server: passes its input and output on to `RemindTool`. */
import { connect } from 'node:net'
import process from 'node:process'
import { getEnvironment } from '../config.ts'
import { readArguments } from '../platform/process.ts'

const { REMIND_TOKEN = '' } = getEnvironment()
const socket = connect(Number(readArguments().at(-1)), '127.0.0.1', () => {
  socket.write(REMIND_TOKEN)
  process.stdin.pipe(socket)
  socket.pipe(process.stdout)
})
socket.on('error', error => process.stderr.write(`${error.message}\n`))
socket.on('close', () => process.exit())
