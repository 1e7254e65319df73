/** Short forms of TypeBox for the schemas of the house: what most fields are, with what their reader is told. */
import {
  type IntegerOptions,
  OptionalKind,
  type StringOptions,
  type TOptional,
  type TProperties,
  type TSchema,
  Type,
} from '@sinclair/typebox'

/** As Type.Optional, but for the questions what kind of schema it is: hundreds of calls, which the runtime begins to compile at each start. */
export const optional = <S extends TSchema>(schema: S): TOptional<S> => ({
  ...schema,
  [OptionalKind]: 'Optional',
})
export const text = (description: string) => Type.String({ description })
export const integer = (description: string) => Type.Integer({ description })
export const flag = (description: string) => Type.Boolean({ description })

/** A text of 1 to so many characters. */
export const bounded = (maxLength: number, description?: string, more: StringOptions = {}) =>
  Type.String({ minLength: 1, maxLength, ...(description && { description }), ...more })

/** A whole number of that range. */
export const between = (minimum: number, maximum: number, description: string, more: IntegerOptions = {}) =>
  Type.Integer({ minimum, maximum, description, ...more })

/** How long a call may wait. */
export const seconds = (maximum: number, usual: number, description: string) =>
  Type.Number({ minimum: 0, maximum, default: usual, description })

/** One of some texts. */
export const oneOf = <const T extends string>(
  values: readonly T[],
  description?: string,
  more: object = {},
) => Type.Unsafe<T>({ type: 'string', enum: values, ...(description && { description }), ...more })

/** An object that takes no other keys. */
export const closed = <P extends TProperties>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })

/** The same shape, with what its reader is told here. */
export const told = <S extends TSchema>(schema: S, description: string): S => ({ ...schema, description })
