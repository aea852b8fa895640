/* The functions of ROCm SMI that ONNX Runtime has, for machines without a GPU: there is no device whose memory could be asked about. */

enum { success = 0, not_found = 7 };

int rsmi_init(void) { return success; }
int rsmi_shut_down(void) { return success; }
int rsmi_dev_memory_total_get(void) { return not_found; }
int rsmi_dev_memory_usage_get(void) { return not_found; }
