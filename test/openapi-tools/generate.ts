/** The TypeScript types of the OpenAPI document on stdin, to stdout. */
import openapiTS, { astToString } from 'openapi-typescript'

console.log(astToString(await openapiTS(await Bun.stdin.text())))
