/* An NVML of two GPUs, the second one idle, with constant values, built as a library for
 * test_sensors. With FAKE_NVML=poor it supports only the load, as on a Jetson. */
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3 };

static char gpus[3];

static int poor(void)
{
    const char *how = getenv("FAKE_NVML");
    return how && strcmp(how, "poor") == 0;
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetUtilizationRates(void *device, unsigned *out);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *out);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);
int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &gpus[index];
    return index < 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    *device = &gpus[1];
    return strcmp(bus, "0000:02:00.0") == 0 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *out)
{
    out[0] = device == &gpus[1] ? 2 : 91;
    out[1] = 60;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *out)
{
    out[0] = 24000000000;
    out[1] = 21000000000;
    out[2] = 3000000000;
    return poor() ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
    *out = 71;
    return poor() || sensor != 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
    *out = 298400;
    return poor() ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out)
{
    *out = 450000;
    return poor() ? NOT_SUPPORTED : SUCCESS;
}

/* The function's name before driver 535; 4 = the power limit lowers the clocks. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    *out = 4;
    return poor() ? NOT_SUPPORTED : SUCCESS;
}
