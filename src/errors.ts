/** What every error of this package has: a stable `code` to branch on. */
export interface OnceboxErrorInfo {
  readonly code: string;
}

/** A value that can never be right: empty, too long, of the wrong type. */
export class InvalidArgumentError extends TypeError implements OnceboxErrorInfo {
  readonly code = "ONCEBOX_INVALID_ARGUMENT";
  override readonly name = "InvalidArgumentError";
}

/** A number or a duration outside the allowed range. */
export class ArgumentRangeError extends RangeError implements OnceboxErrorInfo {
  readonly code = "ONCEBOX_ARGUMENT_RANGE";
  override readonly name = "ArgumentRangeError";
}

/** The call is well-formed but cannot succeed in the present state or configuration. */
export class InvalidOperationError extends Error implements OnceboxErrorInfo {
  readonly code: string = "ONCEBOX_INVALID_OPERATION";
  override readonly name: string = "InvalidOperationError";
}

/** The driver of the chosen database is not installed. */
export class DriverMissingError extends InvalidOperationError {
  override readonly code = "ONCEBOX_DRIVER_MISSING";
  override readonly name = "DriverMissingError";

  constructor(driver: string, database: string, cause: unknown) {
    super(`${database} needs the package "${driver}", which is not installed. Run: npm install ${driver}`, {
      cause,
    });
  }
}

/** The database has no oncebox schema, or an older one than this version of the package needs. */
export class SchemaMissingError extends InvalidOperationError {
  override readonly code = "ONCEBOX_SCHEMA_MISSING";
  override readonly name = "SchemaMissingError";
}

/** `data` was read of a message whose payload is not JSON. No retry can help. */
export class PayloadNotJsonError extends InvalidOperationError {
  override readonly code = "ONCEBOX_PAYLOAD_NOT_JSON";
  override readonly name = "PayloadNotJsonError";
}
