/** The functions that the router calls. The file with your code option needs `export * from "./exports"`. */
export {
  switchpath_slice,
  switchpath_describe,
  switchpath_block,
  switchpath_start,
  switchpath_parse,
  switchpath_format,
} from "./switchpath";
