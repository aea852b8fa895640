/* rocTracer, of which ONNX Runtime's release needs the library but no function. */
typedef int empty;
