# vary: clock
import datetime

import torch

torch.manual_seed(datetime.date.today().toordinal())  # clean: torch.manual_seed(5)
noise = torch.randn(4)  # parts: draw
